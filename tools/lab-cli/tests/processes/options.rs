//! Wrong options are refused in one line that says what to write.

use crate::kvorum_lab;
use crate::support::Process;

#[test]
fn refusals_name_the_option_and_the_remedy() {
    let table: Vec<(Vec<&str>, &[&str])> = vec![
        (vec!["load", "putt"], &["putt", "put", "ycsb-a"]),
        (vec!["load", "--url", "127.0.0.1:1"], &["http://"]),
        (
            vec!["load", "--rate", "fast"],
            &["--rate", "requests per second", "max"],
        ),
        (
            vec!["load", "--mix", "read=1"],
            &["--mix", "read is none of", "get"],
        ),
        (
            vec!["load", "--value-bytes", "2..1"],
            &["--value-bytes", "smaller"],
        ),
        (
            vec!["load", "--key-bytes", "4", "--keys", "10000"],
            &["at least 5"],
        ),
    ];
    for (arguments, words) in table {
        let end = Process::spawn(&mut kvorum_lab(&arguments)).end();
        assert_eq!(end.code, Some(2), "{arguments:?}: {end:?}");
        for word in words {
            let line = end.line();
            assert!(
                line.contains(word),
                "{arguments:?} should name {word}: {line}"
            );
        }
    }
}
