package kvorum

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTheFileOfATokenIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(file, []byte("first\nanother line\n"), 0o600))
	source, err := newTokenSource("", file)
	check(t, err)
	equal(t, must(source.current())(t), "first")
	check(t, os.WriteFile(file, []byte("second"), 0o600))
	check(t, os.Chtimes(file, time.Time{}, time.Unix(1000, 0)))
	equal(t, must(source.current())(t), "second")
}

func TestATokenIsWhatAHeaderCanCarry(t *testing.T) {
	for _, token := range []string{"a", "kv_0-9.~+/Z=="} {
		check(t, checkToken(token))
	}
	for _, token := range []string{"", "=", "a=b", "a b", "a\n", "é", string(make([]byte, tokenBytesMax+1))} {
		equal(t, errors.Is(checkToken(token), ErrArgument), true)
	}
}

func TestEveryByteOfAKeySurvivesTheQuery(t *testing.T) {
	var query query
	query.add("id", "a b+&%\x00\xff~")
	equal(t, query.String(), "id=a+b%2B%26%25%00%FF~")
}

func TestAVersionIsSentAsItsETag(t *testing.T) {
	etag := etagOf(228111136384352257)
	equal(t, etag, `"032a69deb5800001-0000000000000000"`)
	version, found := versionOf(etag)
	equal(t, []any{version, found}, []any{uint64(228111136384352257), true})
	for _, other := range []string{"*", `"short"`, `"032a69deb580000g-0000000000000000"`} {
		_, found := versionOf(other)
		equal(t, found, false)
	}
}
