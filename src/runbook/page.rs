//! A Markdown page taken apart: front matter, sections, their step blocks and
//! where each stands. Knows nothing of what the fields mean.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Parser, Tag, TagEnd};

use super::mistakes::Mistakes;

/// The line that opens and closes the front matter.
const FENCE: &str = "+++";

/// The info string of a block that describes a step.
const STEP: &str = "step";

#[derive(Debug, Default)]
pub struct Page {
    pub front: Option<Block>,
    pub introduction: String,
    pub sections: Vec<Section>,
}

/// One `##` section.
#[derive(Debug)]
pub struct Section {
    pub title: String,
    pub line: usize,
    pub prose: String,
    pub steps: Vec<Block>,
}

/// TOML inside the page.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    pub text: String,
    /// The line of the fence that opens it; the text begins on the next one.
    pub line: usize,
}

/// Takes a page apart. What cannot be placed is a mistake, and the rest is read all the same.
pub fn read(source: &str, mistakes: &mut Mistakes) -> Page {
    let lines = Lines::of(source);
    let mut page = Page::default();
    let start = match front_matter(source) {
        Ok((block, body)) => {
            page.front = Some(block);
            body
        }
        Err((line, why)) => {
            mistakes.add(line, why);
            0
        }
    };
    let mut reader = Reader { source, lines: &lines, page, mistakes, cut: start };
    let mut depth = 0_usize;
    let mut events =
        Parser::new(&source[start..]).into_offset_iter().map(|(event, at)| (event, at.start + start..at.end + start));
    while let Some((event, at)) = events.next() {
        match event {
            Event::Start(Tag::Heading { level: HeadingLevel::H2, .. }) if depth == 0 => {
                let title = gather(&mut events, TagEnd::Heading(HeadingLevel::H2));
                reader.section(title, at);
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                let text = gather(&mut events, TagEnd::CodeBlock);
                reader.fence(&info, text, at, depth);
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    reader.prose(source.len());
    reader.page
}

/// Where the page stands while its events pass.
struct Reader<'a> {
    source: &'a str,
    lines: &'a Lines,
    page: Page,
    mistakes: &'a mut Mistakes,
    /// Prose is gathered up to here.
    cut: usize,
}

impl Reader<'_> {
    fn section(&mut self, title: String, at: Range<usize>) {
        self.prose(at.start);
        self.cut = at.end;
        let line = self.lines.at(at.start);
        self.page.sections.push(Section { title: title.trim().to_owned(), line, prose: String::new(), steps: Vec::new() });
    }

    fn fence(&mut self, info: &str, text: String, at: Range<usize>, depth: usize) {
        let line = self.lines.at(at.start);
        if !is_closed(&self.source[at.clone()]) {
            // Everything after it would silently be part of the block.
            self.mistakes.add(line, "the block that begins here is never closed");
        }
        if info.split_whitespace().next() != Some(STEP) {
            return;
        }
        if depth > 0 {
            return self.mistakes.add(line, "a step block stands inside a list or a quotation; it must stand at the margin");
        }
        self.prose(at.start);
        self.cut = at.end;
        match self.page.sections.last_mut() {
            Some(section) => section.steps.push(Block { text, line }),
            None => self.mistakes.add(line, "a step block stands before the first `##` section"),
        }
    }

    /// Adds the text between the last cut and `end` to whatever it belongs to.
    fn prose(&mut self, end: usize) {
        let text = self.source.get(self.cut..end).unwrap_or_default().trim();
        let place = match self.page.sections.last_mut() {
            Some(section) => &mut section.prose,
            None => &mut self.page.introduction,
        };
        if !place.is_empty() && !text.is_empty() {
            place.push_str("\n\n");
        }
        place.push_str(text);
        self.cut = end;
    }
}

/// The front matter and the offset of what follows, or where it is missing.
fn front_matter(source: &str) -> Result<(Block, usize), (usize, &'static str)> {
    let mut offset = 0;
    let mut text = String::new();
    for (number, line) in source.split_inclusive('\n').enumerate() {
        let bare = line.trim_end();
        offset += line.len();
        match number {
            0 if bare != FENCE => return Err((1, "the page must begin with front matter between two lines `+++`")),
            0 => {}
            _ if bare == FENCE => return Ok((Block { text, line: 1 }, offset)),
            _ => text.push_str(line),
        }
    }
    Err((1, "the front matter is missing or has no closing line `+++`"))
}

/// The text of everything up to the end of the element that just began.
fn gather<'s>(events: &mut impl Iterator<Item = (Event<'s>, Range<usize>)>, end: TagEnd) -> String {
    let mut text = String::new();
    for (event, _) in events {
        match event {
            Event::Text(part) | Event::Code(part) => text.push_str(&part),
            Event::SoftBreak | Event::HardBreak => text.push(' '),
            Event::End(tag) if tag == end => break,
            _ => {}
        }
    }
    text
}

/// Does a fenced block end with a fence of its own?
fn is_closed(block: &str) -> bool {
    let mut lines = block.trim_end().lines();
    let opening = lines.next().unwrap_or_default().trim_start();
    let mark = opening.chars().next().unwrap_or('`');
    let length = opening.chars().take_while(|c| *c == mark).count();
    lines.last().is_some_and(|last| {
        let last = last.trim_start_matches([' ', '\t', '>']).trim_end();
        last.chars().count() >= length && last.chars().all(|c| c == mark)
    })
}

/// Line numbers of byte offsets.
#[derive(Debug)]
pub struct Lines(Vec<usize>);

impl Lines {
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }

    /// The line, from 1, in which a byte stands.
    #[must_use]
    pub fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|newline| *newline < offset) + 1
    }
}
