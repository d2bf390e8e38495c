//! Graphviz.

use reprise_plan::graph::Window;

use super::colour;

/// A window as a DOT document: one row for each thread, in the order of the trace.
pub fn dot(window: &Window) -> String {
    let mut out =
        String::from("digraph reprise {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n");
    out += &format!("  label={};\n", quoted(&format!("order {}", window.order)));
    let mut threads: Vec<u32> = window.spans.iter().map(|s| s.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    for thread in threads {
        out += &format!("  subgraph cluster_{thread} {{\n    label=\"thread {thread}\";\n");
        for span in window.spans.iter().filter(|s| s.thread == thread) {
            let label = quoted(&format!("{} {}\n{}", span.action, span.call, span.object));
            out += &format!("    a{} [label={label}];\n", span.action);
        }
        out += "  }\n";
    }
    for arrow in &window.arrows {
        let (from, to) = (window.spans[arrow.from].action, window.spans[arrow.to].action);
        let (rule, colour) = (quoted(arrow.rule), colour(arrow.rule));
        // What only follows in its thread needs no words.
        let label = if arrow.rule == "thread" { String::new() } else { format!(", label={rule}") };
        out += &format!("  a{from} -> a{to} [color=\"{colour}\", fontcolor=\"{colour}\", fontsize=8{label}];\n");
    }
    out + "}\n"
}

/// A quoted string; DOT knows no other escapes than these.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
