//! Aligned columns.

/// To which side a column is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Rows of text in columns that are as wide as needed. The last column, if aligned to the left, is not padded.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
    indent: usize,
}

impl Table {
    /// An empty table; each line begins with `indent` spaces.
    pub fn new(indent: usize, columns: &[Align]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new(), indent }
    }

    /// Adds a row; cells without a column are left out.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The lines, each ended.
    pub fn text(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| width_of(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(self.indent);
            for (i, (cell, (align, width))) in row.iter().zip(self.columns.iter().zip(&widths)).enumerate() {
                if i > 0 {
                    line.push_str("  ");
                }
                let padding = " ".repeat(width - width_of(cell));
                match align {
                    Align::Left => line.extend([cell.as_str(), &padding]),
                    Align::Right => line.extend([padding.as_str(), cell]),
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Characters shown: escapes for colour take no room.
fn width_of(text: &str) -> usize {
    let mut width = 0;
    let mut escape = false;
    for c in text.chars() {
        match (escape, c) {
            (true, 'm') => escape = false,
            (true, _) => {}
            (false, '\x1b') => escape = true,
            (false, _) => width += 1,
        }
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_whatever_their_colour() {
        let mut table = Table::new(1, &[Align::Left, Align::Right]);
        table.row(["a", "10"]);
        table.row(["\x1b[1mbcd\x1b[0m", "9"]);
        assert_eq!(table.text(), " a    10\n \x1b[1mbcd\x1b[0m   9\n");
    }
}
