use super::*;
use crate::serve::{NodeProgram, ServeCommand, ServeOptions};
use crate::values::{ByteSize, Switch};
use std::io;

/// No file exists.
fn no_file(_: &Path) -> io::Result<String> {
    Err(io::ErrorKind::NotFound.into())
}

/// The contents of the layers.
#[derive(Clone, Copy, Default)]
struct Written<'a> {
    /// After `kvorum serve`.
    arguments: &'a [&'a str],
    environment: &'a [(&'a str, &'a str)],
    /// The text of `kvorum.toml`.
    file: Option<&'a str>,
}

impl Written<'_> {
    fn parse(self) -> Result<Parsed<NodeProgram>, EarlyExit> {
        let config: &[&str] = match self.file {
            Some(_) => &["--config", "kvorum.toml"],
            None => &[],
        };
        let words = ["kvorum", "serve"]
            .iter()
            .chain(config)
            .chain(self.arguments);
        let arguments: Vec<OsString> = words.map(OsString::from).collect();
        let environment = self
            .environment
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        parse(&arguments, environment, &|file| match self.file {
            Some(text) if file == Path::new("kvorum.toml") => Ok(text.to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        })
    }

    fn options(self) -> ServeOptions {
        let ServeCommand::Serve(options) = self.parse().unwrap().program.command;
        *options
    }

    /// The line of the refusal, which must be a single one.
    fn refusal(self) -> String {
        match self.parse() {
            Err(EarlyExit::Refuse(failure)) => {
                assert!(!failure.line().contains('\n'), "{}", failure.line());
                failure.line().to_owned()
            }
            other => panic!("{other:?} is no refusal"),
        }
    }
}

#[test]
fn a_stronger_layer_overrides_a_weaker_one() {
    let arguments: &[&str] = &["--read-queue", "1"];
    let environment: &[(&str, &str)] = &[("KVORUM_READ_QUEUE", "2")];
    let file = Some("read-queue = 3");
    for (on_line, in_environment, in_file, expected) in [
        (true, true, true, 1),
        (true, false, true, 1),
        (true, true, false, 1),
        (false, true, true, 2),
        (false, true, false, 2),
        (false, false, true, 3),
        (false, false, false, 1024),
    ] {
        let written = Written {
            arguments: if on_line { arguments } else { &[] },
            environment: if in_environment { environment } else { &[] },
            file: if in_file { file } else { None },
        };
        let name = format!("line {on_line}, environment {in_environment}, file {in_file}");
        assert_eq!(written.options().read_queue, expected, "{name}");
    }
}

#[test]
fn layers_are_merged() {
    let written = Written {
        arguments: &["--url", "http://localhost:1"],
        environment: &[("KVORUM_DATA", "from/environment"), ("HOME", "/")],
        file: Some(
            "memory = \"1GiB\"\ncompaction = false\nfilter = 0.5\nlisten = [\"1.1.1.1:1\", \"[::]:2\"]\n\
             huge-pages = true\ncluster = [\"http://localhost:1\", \"b=http://localhost:2\"]",
        ),
    };
    let options = written.options();
    assert_eq!(options.url, Some("http://localhost:1".parse().unwrap()));
    assert_eq!(options.data, Some("from/environment".into()));
    assert_eq!(options.memory, Some(ByteSize(1 << 30)));
    assert_eq!(options.filter.0, Some(0.5));
    assert_eq!(options.listen.len(), 2);
    assert_eq!(options.huge_pages, Switch::On);
    let config = options.server_config(&no_file).unwrap();
    assert_eq!(config.node.members.count(), 2);
    assert!(!config.node.compaction);
    assert_eq!(config.memory_bytes, 1 << 30);
}

#[test]
fn the_environment_names_the_file_unless_the_command_line_does() {
    let read = |file: &Path| match file.to_str() {
        Some("a") => Ok("read-queue = 1".to_owned()),
        Some("b") => Ok("read-queue = 2".to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    for (words, expected) in [
        (&["kvorum", "serve"][..], 1),
        (&["kvorum", "serve", "--config", "b"], 2),
    ] {
        let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
        let environment = [("KVORUM_CONFIG".into(), "a".into())];
        let parsed = parse::<NodeProgram>(&arguments, environment, &read).unwrap();
        let ServeCommand::Serve(options) = parsed.program.command;
        assert_eq!(options.read_queue, expected);
    }
}

#[test]
fn an_unknown_variable_causes_only_a_warning() {
    let written = Written {
        environment: &[("KVORUM_SERVICE_HOST", "10.0.0.1"), ("KVORUMX", "1")],
        ..Written::default()
    };
    let warnings = written.parse().unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("KVORUM_SERVICE_HOST"), "{warnings:?}");
    assert!(!warnings[0].contains("did you mean"), "{warnings:?}");
}

#[test]
fn the_file_cannot_set_the_hidden_flag_or_config() {
    for file in ["until-stdin-closes = true", "config = \"other.toml\""] {
        let written = Written {
            file: Some(file),
            ..Written::default()
        };
        assert!(written.refusal().contains("no such option"));
    }
}

#[test]
fn a_refusal_names_the_file_and_the_key() {
    for (file, words) in [
        (
            "memory = \"12x\"",
            &["kvorum.toml: memory: ", "12x", "write a size"][..],
        ),
        (
            "memori = 1",
            &[
                "kvorum.toml: memori: ",
                "no such option",
                "did you mean `memory`?",
            ],
        ),
        (
            "read_queue = 1",
            &["kvorum.toml: read_queue: ", "did you mean `read-queue`?"],
        ),
        (
            "xyzzy = 1",
            &[
                "kvorum.toml: xyzzy: ",
                "no such option; see 'kvorum serve --help'",
            ],
        ),
        ("read-queue = -1", &["kvorum.toml: read-queue: ", "-1"]),
        ("timeout = 1", &["kvorum.toml: timeout: ", "write a time"]),
        (
            "listen = [1]",
            &["kvorum.toml: listen: ", "list of strings"],
        ),
        ("[memory]\nx = 1", &["kvorum.toml: memory: ", "a number"]),
        ("url = \"a\"\nurl = \"b\"", &["kvorum.toml, line 2: "]),
        ("\n\nmemory 1", &["kvorum.toml, line 3: "]),
        // A wrong value is refused also if a stronger layer overrides it.
        ("read-queue = \"x\"", &["kvorum.toml: read-queue: "]),
    ] {
        let line = Written {
            arguments: &["--read-queue", "1"],
            file: Some(file),
            ..Written::default()
        }
        .refusal();
        for word in words {
            assert!(line.contains(word), "{file:?}: {line}");
        }
    }
}

#[test]
fn a_refusal_names_the_variable() {
    let line = Written {
        environment: &[("KVORUM_COMPRESSION", "zip")],
        ..Written::default()
    }
    .refusal();
    for word in ["KVORUM_COMPRESSION: ", "zip", "lz4", "none"] {
        assert!(line.contains(word), "{line}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let line = Written {
        arguments: &["--config", "absent.toml"],
        ..Written::default()
    }
    .refusal();
    assert!(line.contains("absent.toml"), "{line}");
}

#[test]
fn a_value_out_of_bounds_is_refused_with_its_origin_even_if_overridden() {
    for (environment, file, words) in [
        (
            &[("KVORUM_THREADS", "0")][..],
            None,
            &["KVORUM_THREADS: ", "'0'", "--threads", "1 to 1024"][..],
        ),
        (
            &[],
            Some("threads = 0"),
            &["kvorum.toml: threads: ", "'0'", "--threads", "1 to 1024"],
        ),
        (
            &[],
            Some("drain-timeout = \"1h\""),
            &["kvorum.toml: drain-timeout: ", "1ms to 8s"],
        ),
        (
            &[("KVORUM_URL", "http://h:0")],
            None,
            &["KVORUM_URL: ", "port 0"],
        ),
    ] {
        let line = Written {
            arguments: &[
                "--threads",
                "1",
                "--drain-timeout",
                "1s",
                "--url",
                "http://h:1",
            ],
            environment,
            file,
        }
        .refusal();
        for word in words {
            assert!(line.contains(word), "{word}: {line}");
        }
    }
}

#[test]
fn a_contradiction_between_options_is_refused_with_its_origin() {
    let refusal = |arguments: &[&str], environment: &[(&str, &str)], file| {
        let parsed = Written {
            arguments,
            environment,
            file: Some(file),
        }
        .parse()
        .unwrap();
        let ServeCommand::Serve(options) = &parsed.program.command;
        let error = options.server_config(&no_file).unwrap_err();
        parsed.refuse(&error).line().to_owned()
    };
    let file = "url = \"http://h:1\"\ndata = \"d\"\nmemory = \"128MiB\"\nfrom = 2";
    for (arguments, environment, origin) in [
        (&[][..], &[][..], "kvorum.toml: from: "),
        (&[], &[("KVORUM_FROM", "2")], "KVORUM_FROM: "),
        (&["--from", "2"], &[], "--from: "),
    ] {
        let line = refusal(arguments, environment, file);
        assert!(line.starts_with(origin), "{line}");
    }
}

#[test]
fn an_option_for_one_start_is_refused_where_every_start_finds_it() {
    for name in ["accept-data-loss", "drop-future-versions"] {
        let variable = format!("KVORUM_{}", name.replace('-', "_").to_ascii_uppercase());
        let file = format!("{name} = true");
        for (written, origin) in [
            (
                Written {
                    environment: &[(&variable, "on")],
                    ..Written::default()
                },
                variable.as_str(),
            ),
            (
                Written {
                    file: Some(&file),
                    ..Written::default()
                },
                "kvorum.toml",
            ),
        ] {
            let line = written.refusal();
            for word in [origin, "one start", &format!("--{name}"), "command line"] {
                assert!(line.contains(word), "{word}: {line}");
            }
        }
        let argument = format!("--{name}");
        let written = Written {
            arguments: &[&argument],
            ..Written::default()
        };
        assert!(written.parse().is_ok());
    }
}
