use super::*;

fn page() -> Page {
    let mut page = Page::new("tables", "A hundred tables");
    page.paragraph("What does a read cost?");
    page.section("Measured");
    let mut table = MarkdownTable::new(["filter", "rate"]);
    table.row(["none", "7.3k/s"]);
    page.table(&table);
    page.figure("reads", "Reads [a second]", "<svg/>".to_owned());
    page.list(["one", "two"]);
    page.list::<&str>([]);
    page.subsection("Written by");
    page.code("kvorum-lab lab tables\n");
    page.data("measured", &[1, 2]);
    page
}

#[test]
fn a_page_is_markdown() {
    let expected = "\
# A hundred tables

What does a read cost?

## Measured

| filter |   rate |
| ------ | -----: |
| none   | 7.3k/s |

[![Reads a second](tables/reads.svg)](tables/reads.svg)

- one
- two

### Written by

```
kvorum-lab lab tables
```
";
    assert_eq!(page().markdown(), expected);
}

#[test]
fn a_list_is_extended_where_it_ended() {
    let mut page = Page::new("a", "A");
    page.list(["one"]);
    let end = page.end();
    page.section("Measured");
    page.extend_list(end, "two");
    assert_eq!(page.markdown(), "# A\n\n- one\n- two\n\n## Measured\n");
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
    assert_eq!(
        std::fs::read_to_string(&written).unwrap(),
        page().markdown()
    );
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&old), ["measured.json", "reads.svg"]);
    assert_eq!(names(&docs), ["other.md", "tables", "tables.md"]);
    let json = std::fs::read_to_string(old.join("measured.json")).unwrap();
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
