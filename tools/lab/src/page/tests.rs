use super::*;

const TEMPLATE: &str = "\
# A hundred tables

What does a read cost? {{cost}}

{{table measured}}

{{chart reads Reads}}
";

fn page() -> Page {
    let mut page = Page::new("tables");
    let mut table = MarkdownTable::new(["filter", "rate"]);
    table.row(["none", "7.3k/s"]);
    page.keep_table("measured", table);
    page.keep_chart("reads", "<svg/>".to_owned());
    page.keep_value("cost", "1 us");
    page.data("runs", &[1, 2]);
    page.fill(TEMPLATE).unwrap();
    page
}

#[test]
fn a_page_replaces_the_previous_one() {
    let folder = tempfile::tempdir().unwrap();
    let docs = folder.path().join("docs/lab");
    let old = docs.join("tables");
    std::fs::create_dir_all(&old).unwrap();
    std::fs::write(old.join("gone.svg"), "old").unwrap();
    std::fs::write(docs.join("tables.md"), "old").unwrap();
    std::fs::write(docs.join("other.md"), "kept").unwrap();

    let written = page().write(&docs).unwrap();
    assert_eq!(written, docs.join("tables.md"));
    let expected = "\
# A hundred tables

What does a read cost? 1 us

| filter |   rate |
| ------ | -----: |
| none   | 7.3k/s |

[![Reads](tables/reads.svg)](tables/reads.svg)
";
    assert_eq!(std::fs::read_to_string(&written).unwrap(), expected);
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&old), ["reads.svg", "run.json", "runs.json"]);
    assert_eq!(names(&docs), ["other.md", "tables", "tables.md"]);
    let json = std::fs::read_to_string(old.join("runs.json")).unwrap();
    assert_eq!(json, "[1,2]\n");
}

#[test]
fn an_unwritable_folder_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let error = page().write(&file).unwrap_err();
    assert!(error.to_string().contains("file/"), "{error}");
}
