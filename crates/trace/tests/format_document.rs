//! `docs/FORMAT.md` names every column of every table, in the tables' own words.

use reprise_trace::*;

fn columns(text: &str, table: &str) -> Vec<String> {
    let section = text.split(&format!("\n### {table}\n")).nth(1).unwrap_or_else(|| panic!("no section {table}"));
    let section = section.split("\n#").next().unwrap_or_default();
    let rows = section.lines().filter(|l| l.starts_with("| `"));
    rows.flat_map(|line| {
        let cell = line.split('|').nth(1).unwrap_or_default();
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    })
    .collect()
}

fn check<R: Row>(text: &str) {
    let documented = columns(text, R::TABLE);
    let mut actual: Vec<String> = column_names::<R>();
    if R::TABLE == "actions" {
        // The six arguments are written as a range.
        actual.retain(|c| !["a1", "a2", "a3", "a4"].contains(&c.as_str()));
    }
    assert_eq!(documented, actual, "table {}", R::TABLE);
}

#[test]
fn every_column_is_documented_in_order() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md")).unwrap();
    check::<Action>(&text);
    check::<ThreadRow>(&text);
    check::<Process>(&text);
    check::<Descriptor>(&text);
    check::<Lock>(&text);
    check::<Mapping>(&text);
    check::<TreeNode>(&text);
    check::<Content>(&text);
    check::<BlobRow>(&text);
    check::<Environment>(&text);
    check::<DeviceSample>(&text);
    check::<Mount>(&text);
    check::<QueueSetting>(&text);
    assert!(text.contains(&format!("Present version: **{FORMAT_MAJOR}.{FORMAT_MINOR}**")));
}
