//! How wide the columns of a table are, where not all of it has room.
//!
//! Lines wrap between words before a word is shortened; and a column gives way
//! where that makes the table least taller.

use super::layout::{WIDTH, width};

/// Between two columns.
pub const GAP: usize = 2;
/// A fingerprint: what is compared digit by digit is not shortened without need.
const LONGEST_ID: usize = 36;
/// What is left of a longer id can still be told from another.
const SHORTEST_ID: usize = 12;
/// However crowded a table is, a word keeps so many columns of it.
const SMALLEST_WORD: usize = 4;

/// The columns of a table that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arranged {
    pub widths: Vec<usize>,
    /// The longest word that each column holds; others are shortened to it.
    pub words: Vec<usize>,
}

/// Arranges rows, the header among them. Columns in `whole` neither wrap nor
/// lose a part of a word.
#[must_use]
pub fn arrange(rows: &[&[String]], whole: &[usize]) -> Arranged {
    let columns = rows.first().map_or(0, |row| row.len());
    let room = WIDTH.saturating_sub(GAP * columns.saturating_sub(1));
    let with = |limit: usize, cap: usize| -> Vec<Column> {
        (0..columns).map(|column| Column::of(rows, column, whole.contains(&column), limit, cap)).collect()
    };
    let lines_fit = |columns: &Vec<Column>| columns.iter().map(Column::longest_line).sum::<usize>() <= room;
    let words_fit = |columns: &Vec<Column>| columns.iter().map(|column| column.least).sum::<usize>() <= room;
    let all = with(usize::MAX, usize::MAX);
    // Long ids give way first, if then no line wraps; else the longest words.
    let shortened_ids = || (SHORTEST_ID..=LONGEST_ID).rev().map(|cap| with(LONGEST_ID, cap)).find(lines_fit);
    let shortened_words = || (SMALLEST_WORD..=LONGEST_ID).rev().map(|cap| with(cap, cap)).find(words_fit);
    let columns = match lines_fit(&all) {
        true => all,
        false => shortened_ids().or_else(shortened_words).unwrap_or_else(|| with(SMALLEST_WORD, SMALLEST_WORD)),
    };
    Arranged { widths: narrowed(&columns, room), words: columns.iter().map(|column| column.longest_word).collect() }
}

/// Takes from the columns what is too much, where it costs the fewest lines.
fn narrowed(columns: &[Column], room: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(|column| column.longest_line().min(WIDTH).max(column.least)).collect();
    let heights = |column: usize, width: usize| columns[column].heights(width);
    let mut now: Vec<Vec<usize>> = (0..columns.len()).map(|column| heights(column, widths[column])).collect();
    let mut next: Vec<Vec<usize>> = (0..columns.len()).map(|column| heights(column, widths[column] - 1)).collect();
    while widths.iter().sum::<usize>() > room {
        let total = |narrower: usize| -> usize {
            let rows = 0..now.first().map_or(0, Vec::len);
            let cell = |row: usize, column: usize| if column == narrower { next[column][row] } else { now[column][row] };
            rows.map(|row| (0..columns.len()).map(|column| cell(row, column)).max().unwrap_or(0)).sum()
        };
        let can = (0..columns.len()).filter(|column| widths[*column] > columns[*column].least);
        // Of those that cost the same, the widest.
        let Some(narrower) = can.min_by_key(|column| (total(*column), usize::MAX - widths[*column])) else { break };
        widths[narrower] -= 1;
        now[narrower] = std::mem::replace(&mut next[narrower], heights(narrower, widths[narrower] - 1));
    }
    widths
}

/// The widths of a column's words: by cell, by line of the cell.
struct Column {
    cells: Vec<Vec<Vec<usize>>>,
    longest_word: usize,
    /// What it cannot do without.
    least: usize,
}

impl Column {
    /// With words that are wider than `limit` shortened to `cap`, unless it is whole.
    fn of(rows: &[&[String]], column: usize, whole: bool, limit: usize, cap: usize) -> Self {
        let shown = |word: &str| match width(word) {
            wide if wide > limit && !whole => cap,
            fits => fits,
        };
        let line = |line: &str| -> Vec<usize> { line.split(' ').map(shown).collect() };
        let cells: Vec<Vec<_>> = rows.iter().map(|row| row[column].split('\n').map(line).collect()).collect();
        let longest_word = cells.iter().flatten().flatten().copied().max().unwrap_or(0).max(1);
        let mut column = Self { cells, longest_word, least: longest_word };
        if whole {
            column.least = column.longest_line();
        }
        column
    }

    fn longest_line(&self) -> usize {
        let lines = self.cells.iter().flatten().map(|words| words.iter().sum::<usize>() + words.len().saturating_sub(1));
        lines.max().unwrap_or(0).max(1)
    }

    /// How many lines each cell has in a column of this width.
    fn heights(&self, width: usize) -> Vec<usize> {
        let height = |words: &Vec<usize>| {
            let (mut lines, mut used) = (1, None);
            for word in words {
                let with = used.map_or(*word, |used: usize| used + 1 + word);
                if with > width && used.is_some() {
                    lines += 1;
                    used = Some(*word);
                } else {
                    used = Some(with);
                }
            }
            lines
        };
        self.cells.iter().map(|lines| lines.iter().map(height).sum()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arranged(rows: &[&[&str]], whole: &[usize]) -> Arranged {
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
        let rows: Vec<&[String]> = rows.iter().map(Vec::as_slice).collect();
        let arranged = arrange(&rows, whole);
        assert!(arranged.widths.iter().sum::<usize>() + GAP * (arranged.widths.len() - 1) <= WIDTH, "{arranged:?}");
        arranged
    }

    #[test]
    fn what_fits_is_left_alone() {
        let narrow = arranged(&[&["a", "bb bb", "日本"], &["x\nlonger", "", "y"]], &[]);
        assert_eq!(narrow, Arranged { widths: vec![6, 5, 4], words: vec![6, 2, 4] });
    }

    #[test]
    fn a_column_gives_way_where_it_costs_the_fewest_lines() {
        let id = "20261201T130500Z-15fa6920";
        let rows: [&[&str]; 2] = [
            &[id, "10 10 10", "no:\nkey missing", "key1 11111111\nNOT IN ESCROW", "serve 2 h ago"],
            &[id, "30 30 30", "no:\nkey missing", "key1 11111111\nNOT IN ESCROW", "FAILED 20 min ago"],
        ];
        // The last has two lines where the cells beside it have two anyway.
        assert_eq!(arranged(&rows, &[0]).widths, [25, 8, 11, 13, 15]);
    }

    #[test]
    fn prose_has_the_room_that_makes_it_least_tall() {
        let prose = "word ".repeat(60);
        assert_eq!(arranged(&[&["name", &prose, "1 object in newest"]], &[]).widths, [4, 66, 6]);
    }

    #[test]
    fn a_long_id_is_shortened_before_lines_wrap_and_a_fingerprint_is_not() {
        let (fingerprint, id) = ("f".repeat(36), "k".repeat(50));
        let kept = arranged(&[&["secretbox key-2026", &fingerprint, "1 object in newest", "x"]], &[]);
        assert_eq!(kept.words[1], 36);
        let short = arranged(&[&["secretbox key-2026", &id, "1 object in newest", "x"]], &[]);
        assert_eq!((short.widths[0], short.words[1], short.widths[2]), (18, 36, 18));
        let shorter = arranged(&[&["secretbox key-2026", &id, "1 object in the newest one of all", "x"]], &[]);
        assert_eq!((shorter.widths[0], shorter.words[1], shorter.widths[2]), (18, 22, 33));
    }

    #[test]
    fn where_no_word_has_room_each_keeps_a_part() {
        let words: Vec<String> = (1..13).map(|n| "w".repeat(n * 20)).collect();
        let crowded = arranged(&[&words.iter().map(String::as_str).collect::<Vec<_>>()], &[]);
        assert_eq!(crowded.words, [4; 12]);
        let whole = arranged(&[&["a whole line of a known length", &"w".repeat(90), &"x".repeat(90)]], &[0]);
        assert_eq!(whole.widths[0], 30);
    }
}
