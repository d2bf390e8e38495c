//! Scalable vector graphics: threads as rows, time to the right, dependencies as curves.

use reprise_plan::graph::{Span, Window};

use super::colour;
use crate::units::duration;

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 90.0;
const TOP: f64 = 40.0;
const ROW: f64 = 46.0;
const BAR: f64 = 18.0;

/// Where things stand.
struct Scale {
    begin_ns: u64,
    per_ns: f64,
    threads: Vec<u32>,
}

impl Scale {
    fn new(window: &Window) -> Scale {
        let begin_ns = window.spans.iter().map(|s| s.begin_ns).min().unwrap_or(0);
        let end_ns = window.spans.iter().map(|s| s.end_ns).max().unwrap_or(0);
        let mut threads: Vec<u32> = window.spans.iter().map(|s| s.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        Scale { begin_ns, per_ns: (WIDTH - LEFT - 20.0) / end_ns.saturating_sub(begin_ns).max(1) as f64, threads }
    }

    fn x(&self, at_ns: u64) -> f64 {
        LEFT + at_ns.saturating_sub(self.begin_ns) as f64 * self.per_ns
    }

    fn y(&self, thread: u32) -> f64 {
        TOP + self.threads.partition_point(|t| *t < thread) as f64 * ROW
    }
}

/// A window as an SVG document; every bar and curve says what it is when pointed at.
pub fn svg(window: &Window) -> String {
    let scale = Scale::new(window);
    let height = TOP + scale.threads.len() as f64 * ROW + 40.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let span_ns = window.spans.iter().map(|s| s.end_ns).max().unwrap_or(0).saturating_sub(scale.begin_ns);
    out +=
        &text(LEFT, 16.0, &format!("{} actions in {}, order {}", window.spans.len(), duration(span_ns), window.order));
    for thread in &scale.threads {
        out += &text(8.0, scale.y(*thread) + BAR * 0.75, &format!("thread {thread}"));
    }
    for arrow in &window.arrows {
        out += &curve(&scale, &window.spans[arrow.from], &window.spans[arrow.to], arrow.rule);
    }
    window.spans.iter().for_each(|span| out += &bar(&scale, span));
    out += &legend(window, height - 14.0);
    out + "</svg>\n"
}

fn bar(scale: &Scale, span: &Span) -> String {
    let (x, y) = (scale.x(span.begin_ns), scale.y(span.thread));
    let width = (scale.x(span.end_ns) - x).max(2.0);
    let title = format!("{} {} {}: {}", span.action, span.call, span.object, duration(span.end_ns - span.begin_ns));
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"#444\" fill-opacity=\"0.75\"><title>{}</title></rect>\n",
        escaped(&title)
    )
}

fn curve(scale: &Scale, from: &Span, to: &Span, rule: &str) -> String {
    let (x1, y1) = (scale.x(from.end_ns), scale.y(from.thread) + BAR / 2.0);
    let (x2, y2) = (scale.x(to.begin_ns), scale.y(to.thread) + BAR / 2.0);
    let middle = (x1 + x2) / 2.0;
    let title = escaped(&format!("{rule}: {} {} -> {} {}", from.action, from.call, to.action, to.call));
    format!(
        "<path d=\"M{x1:.1} {y1:.1} C{middle:.1} {y1:.1} {middle:.1} {y2:.1} {x2:.1} {y2:.1}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.2\"><title>{title}</title></path>\n",
        colour(rule)
    )
}

fn legend(window: &Window, y: f64) -> String {
    let mut rules: Vec<&str> = window.arrows.iter().map(|a| a.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    let mut out = String::new();
    for (i, rule) in rules.iter().enumerate() {
        let x = LEFT + i as f64 * 110.0;
        let (x2, middle, colour) = (x + 22.0, y - 4.0, colour(rule));
        out += &format!(
            "<line x1=\"{x}\" y1=\"{middle}\" x2=\"{x2}\" y2=\"{middle}\" stroke=\"{colour}\" stroke-width=\"2\"/>\n"
        );
        out += &text(x + 28.0, y, rule);
    }
    out
}

fn text(x: f64, y: f64, words: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n", escaped(words))
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}
