//! Columns for people.

use anstyle::Style;
use comfy_table::{Table as Layout, presets};

use super::{harmless, or_none};

/// The space between columns, as kubectl has it.
const GAP: u16 = 3;

/// A table without lines, as wide as its content.
#[derive(Clone, Debug)]
pub struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    is_headless: bool,
}

/// One field of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A text in colour.
    pub fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self {
            text: harmless(or_none(text.as_ref())),
            style,
        }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

impl Table {
    /// A table with these columns.
    pub fn new(header: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            header: header.into_iter().collect(),
            rows: Vec::new(),
            is_headless: false,
        }
    }

    /// The table without the names of its columns, if that is wanted.
    pub fn without_header(mut self, is_wanted: bool) -> Self {
        self.is_headless = is_wanted;
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The whole table, one line for each row.
    pub fn text(&self) -> String {
        let mut layout = Layout::new();
        layout.load_style(presets::NOTHING);
        layout.set_header(self.header.iter().copied());
        for row in &self.rows {
            layout.add_row(row.iter().map(|cell| cell.text.as_str()));
        }
        for column in layout.column_iter_mut() {
            column.set_padding((0, GAP));
        }
        let widths: Vec<_> = layout.column_max_content_widths();
        let none = Vec::new();
        let rows = std::iter::once(&none).chain(&self.rows);
        let lines = layout.lines().zip(rows);
        lines
            .skip(usize::from(self.is_headless))
            .map(|(line, row)| coloured(line.trim_end(), row, &widths))
            .collect()
    }
}

/// The line with the colours of its cells. They come after the layout, which would
/// count them as text; so what stands before a cell in colour must be plain letters.
fn coloured(line: &str, row: &[Cell], widths: &[u16]) -> String {
    let mut text = String::new();
    let mut letters = line.chars();
    let mut start = 0;
    let mut done = 0;
    for (cell, &width) in row.iter().zip(widths) {
        if cell.style != Style::new() {
            let style = cell.style;
            let length = cell.text.chars().count();
            text.extend(letters.by_ref().take(start - done));
            text.push_str(&style.render().to_string());
            text.extend(letters.by_ref().take(length));
            text.push_str(&style.render_reset().to_string());
            done = start + length;
        }
        start += usize::from(width) + usize::from(GAP);
    }
    text.extend(letters);
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use anstyle::AnsiColor;

    use super::*;

    #[test]
    fn columns_stand_below_each_other_without_lines_or_spaces_at_the_end() {
        let mut table = Table::new(["A", "LONG", "B"]);
        table.row(["first".into(), "x".into(), "1".into()]);
        table.row([
            "2".into(),
            String::new().into(),
            "another value with spaces".into(),
        ]);
        assert_eq!(
            table.text(),
            "A       LONG     B\n\
             first   x        1\n\
             2       <none>   another value with spaces\n"
        );
    }

    #[test]
    fn without_its_header_a_table_is_as_wide_as_before() {
        let mut table = Table::new(["LONG", "B"]).without_header(true);
        table.row(["x".into(), "1".into()]);
        assert_eq!(table.text(), "x      1\n");
    }

    #[test]
    fn colours_do_not_move_columns() {
        let red = Style::new().fg_color(Some(AnsiColor::Red.into()));
        let mut table = Table::new(["A", "B", "C"]);
        table.row(["a".into(), Cell::styled("bad", red), "c".into()]);
        table.row(["a".into(), "well".into(), Cell::styled("d", red)]);
        let text = table.text();
        assert_eq!(
            text,
            "A   B      C\n\
             a   \u{1b}[31mbad\u{1b}[0m    c\n\
             a   well   \u{1b}[31md\u{1b}[0m\n"
        );
    }

    #[test]
    fn nothing_that_a_terminal_obeys_comes_through() {
        let mut table = Table::new(["A"]);
        table.row(["a\u{1b}[2Jb\nc".into()]);
        assert_eq!(table.text(), "A\na?[2Jb?c\n");
    }
}
