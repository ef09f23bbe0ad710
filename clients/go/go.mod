module kvorum.dev/kvorum

go 1.23
