//! Contents and links.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use reprise_testkit::skip;

/// Pages beside the book whose links are looked at, too.
const BESIDE: [&str; 4] = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "tests/README.md"];

fn root() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).canonicalize().unwrap()
}

fn read(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap_or_else(|e| panic!("{page}: {e}"))
}

/// All pages below a directory, as paths from the root of the repository.
fn pages(directory: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(root().join(directory)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{directory}/{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.append(&mut pages(&name));
        } else if name.ends_with(".md") {
            found.insert(name);
        }
    }
    found
}

/// The text without what is code.
fn prose(text: &str) -> String {
    let outside = text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n");
    outside.split('`').step_by(2).collect::<Vec<_>>().join("code")
}

/// Where the links of a text lead, as written.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).filter(|target| !target.contains("://")).collect()
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let outside = format!("\n{text}").split("\n```").step_by(2).collect::<Vec<_>>().join("\n");
    let mut seen = BTreeMap::new();
    let headings = outside.lines().filter(|line| line.starts_with('#')).map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let before = seen.entry(anchor.clone()).and_modify(|n| *n += 1).or_insert(0);
        if *before == 0 { anchor } else { format!("{anchor}-{before}") }
    });
    headings.collect()
}

/// A path from the root without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(out.pop(), "{} leads out of the repository", path.display()),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

/// What is wrong with a link of a page.
fn fault(page: &str, link: &str) -> Option<String> {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let place = match file {
        "" => PathBuf::from(page),
        file => plain(&Path::new(page).parent().unwrap().join(file)),
    };
    let whole = root().join(&place);
    if !whole.exists() {
        return Some(format!("{page}: {link} leads nowhere"));
    }
    let anchor = anchor?;
    let there = anchors(&std::fs::read_to_string(whole).unwrap_or_default());
    (!there.contains(anchor)).then(|| format!("{page}: {link}: no such heading, but {there:?}"))
}

#[test]
fn the_table_of_contents_lists_every_page_once() {
    let mut listed = links(&read("docs/SUMMARY.md"));
    listed.sort();
    let there = pages("docs").into_iter().map(|page| page["docs/".len()..].to_owned());
    assert_eq!(listed, there.filter(|page| page != "SUMMARY.md").collect::<Vec<_>>());
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages("docs").into_iter().chain(BESIDE.map(str::to_owned));
    let mut looked_at = 0;
    let mut faults = Vec::new();
    for page in pages {
        for link in links(&read(&page)) {
            looked_at += 1;
            faults.extend(fault(&page, &link));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(looked_at > 100, "only {looked_at} links were found");
}

/// The site, where mdBook is installed: every page, and links that lead somewhere there, too.
#[test]
fn the_site_is_whole() {
    let built = tempfile::tempdir().unwrap();
    // As deep as the site is beside the pages, so that links to the sources can be followed.
    let site = built.path().join("book");
    for directory in ["crates", "docs"] {
        std::os::unix::fs::symlink(root().join(directory), built.path().join(directory)).unwrap();
    }
    let made = Command::new("mdbook").arg("build").arg(root()).arg("--dest-dir").arg(&site).output();
    let Ok(made) = made else {
        return skip("the_site_is_whole", "no mdbook: `cargo install mdbook` installs it");
    };
    assert!(made.status.success(), "{made:?}");
    let mut faults = Vec::new();
    for page in pages("docs").iter().filter(|page| !page.ends_with("SUMMARY.md")) {
        let name = page["docs/".len()..].replace("README.md", "index.md").replace(".md", ".html");
        let html = std::fs::read_to_string(site.join(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (_, main) = html.split_once("<main>").unwrap();
        let (main, _) = main.split_once("</main>").unwrap();
        let targets = ["href=\"", "src=\""].into_iter().flat_map(|kind| main.split(kind).skip(1));
        for target in targets.filter_map(|rest| rest.split('"').next()) {
            let file = target.split('#').next().unwrap_or_default();
            let place = site.join(&name).parent().unwrap().join(file);
            if !file.is_empty() && !target.contains("://") && !place.exists() {
                faults.push(format!("{name}: {target}"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn a_wrong_link_is_noticed() {
    let text = "# A b, c!\n\n[x](nowhere.md) `[y](z)`\n\n```sh\n# [no](code)\n```\n## A b, c!\n";
    assert_eq!(links(text), ["nowhere.md"]);
    assert_eq!(anchors(text), BTreeSet::from(["a-b-c".to_owned(), "a-b-c-1".to_owned()]));
    assert!(fault("docs/SQL.md", "nowhere.md").is_some());
    assert!(fault("docs/SQL.md", "FORMAT.md#nowhere").is_some());
    assert_eq!(fault("docs/SQL.md", "FORMAT.md#tables"), None);
    assert_eq!(fault("docs/SQL.md", "../README.md"), None);
}
