//! The counts as a table.

use reprise_measure::SizeClass;

use super::{By, Stat, StatRow};
use crate::printable::printable;
use crate::style::Style;
use crate::table::{Align, Table};
use crate::units::{bytes, count, duration};

/// Width of the longest bar.
const BAR: u64 = 40;

impl Stat {
    /// As text: at most `most` rows, the total, and the sizes of reads and writes.
    pub fn text(&self, most: usize, style: Style) -> String {
        use Align::{Left, Right};
        let mut table = Table::new(0, &[Right, Right, Right, Right, Right, Right, Right, Right, Right, Left]);
        let key = match self.by {
            By::Call => "call",
            By::Path => "path",
            By::Thread => "thread",
        };
        let titles = ["calls", "errors", "bytes", "time", "mean", "p50", "p90", "p99", "max", key];
        table.row(titles.map(|t| style.heading(t)));
        for row in self.rows.iter().take(most) {
            table.row(cells(row));
        }
        table.row(cells(&self.total));
        let mut out = table.text();
        let rest = self.rows.len().saturating_sub(most);
        if rest > 0 {
            out += &style.faint(&format!("{rest} rows more\n"));
        }
        for (title, classes) in [("Sizes of reads", &self.read_sizes), ("Sizes of writes", &self.write_sizes)] {
            if !classes.is_empty() {
                out += &format!("\n{}\n{}", style.heading(title), sizes(classes));
            }
        }
        out
    }
}

fn cells(row: &StatRow) -> [String; 10] {
    let r = &row.response;
    let blank = |n: u64, text: String| if n == 0 { String::new() } else { text };
    [
        count(row.calls),
        blank(row.errors, count(row.errors)),
        blank(row.bytes, bytes(row.bytes)),
        duration(r.total_ns),
        duration(r.mean_ns as u64),
        duration(r.p50_ns),
        duration(r.p90_ns),
        duration(r.p99_ns),
        duration(r.max_ns),
        printable(&row.key).into_owned(),
    ]
}

fn sizes(classes: &[SizeClass]) -> String {
    let greatest = classes.iter().map(|c| c.count).max().unwrap_or(1).max(1);
    let mut table = Table::new(2, &[Align::Right, Align::Right, Align::Left]);
    for class in classes {
        let length = (u128::from(class.count) * u128::from(BAR)).div_ceil(u128::from(greatest));
        let from = if class.from_bytes == 0 { "0 B".to_owned() } else { format!("from {}", bytes(class.from_bytes)) };
        table.row([from, count(class.count), "█".repeat(length as usize)]);
    }
    table.text()
}
