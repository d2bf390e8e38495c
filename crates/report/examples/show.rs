use reprise_report::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let t = reprise_trace::TraceReader::open(a[2].as_ref()).unwrap();
    match a[1].as_str() {
        "info" => print!("{}", info(&t).unwrap()),
        "cat" => {
            for l in cat(&t, CatOptions { path: a.get(3).cloned(), ..Default::default() }).unwrap() {
                println!("{}", l.unwrap())
            }
        }
        "json" => {
            for l in cat(&t, CatOptions { json: true, ..Default::default() }).unwrap() {
                println!("{}", l.unwrap())
            }
        }
        "stat" => print!(
            "{}",
            stat(
                &t,
                match a.get(3).map(|s| s.as_str()) {
                    Some("path") => By::Path,
                    Some("thread") => By::Thread,
                    _ => By::Call,
                }
            )
            .unwrap()
            .text(20, Style::Plain)
        ),
        "verify" => {
            let r = reprise_trace::TraceReader::open(a[3].as_ref()).unwrap();
            print!("{}", comparison_text(&reprise_verify::compare(&t, &r).unwrap(), Style::Plain))
        }
        "tree" => print!("{}", tree_text(&reprise_verify::compare_tree(&t, a[3].as_ref()).unwrap(), Style::Plain)),
        _ => {}
    }
}
