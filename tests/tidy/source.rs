//! Rust files as flat lists of tokens. Comments are gone and strings are single
//! tokens, so a rule that looks for a name finds only code, inside macros too.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::LazyLock;

use proc_macro2::{Delimiter, Group, LineColumn, TokenStream, TokenTree};

use crate::repository;

/// One Rust file.
pub struct Source {
    /// From the repository's root, with `/`.
    pub path: String,
    pub text: String,
    pub tokens: Vec<Token>,
}

/// An identifier, one character of punctuation, a literal, or one end of a group.
pub struct Token {
    pub text: String,
    pub line: usize,
    /// Inside a `#[cfg(test)] mod`, or in a file of `tests/`.
    pub in_test: bool,
    /// How many inline modules enclose it.
    pub inline_depth: usize,
    /// For an opening delimiter: the index of its closing one.
    pub closes_at: usize,
}

impl Source {
    pub fn parse(path: &str, text: &str) -> Self {
        let stream = TokenStream::from_str(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut flattener = Flattener { tokens: Vec::new(), in_test: path.starts_with("tests/"), inline_depth: 0 };
        flattener.stream(stream);
        Self { path: path.to_string(), text: text.to_string(), tokens: flattener.tokens }
    }

    /// The words of `pattern` are the texts of consecutive tokens: `crate : :`.
    /// Yields the index of the first token of each place where they stand.
    pub fn places<'a>(&'a self, pattern: &'a str) -> impl Iterator<Item = usize> + 'a {
        (0..self.tokens.len()).filter(move |&at| self.stands_at(at, pattern))
    }

    pub fn stands_at(&self, at: usize, pattern: &str) -> bool {
        pattern.split(' ').enumerate().all(|(offset, word)| self.tokens.get(at + offset).is_some_and(|token| token.text == word))
    }

    pub fn text_at(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text.as_str())
    }

    /// `path:line: message`
    pub fn finding(&self, at: usize, message: &str) -> String {
        format!("{}:{}: {message}", self.path, self.tokens[at].line)
    }
}

struct Flattener {
    tokens: Vec<Token>,
    in_test: bool,
    inline_depth: usize,
}

impl Flattener {
    fn stream(&mut self, stream: TokenStream) {
        for tree in stream {
            let start = tree.span().start();
            match tree {
                TokenTree::Group(group) => self.group(&group),
                TokenTree::Ident(word) => self.push(word.to_string(), start),
                TokenTree::Punct(mark) => self.push(mark.as_char().to_string(), start),
                TokenTree::Literal(value) => self.push(value.to_string(), start),
            }
        }
    }

    fn group(&mut self, group: &Group) {
        let (open, close) = match group.delimiter() {
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::None => ("", ""),
        };
        let (in_test, inline_depth) = (self.in_test, self.inline_depth);
        let is_module = open == "{" && self.previous(2) == "mod";
        self.push(open.to_string(), group.span_open().start());
        let opened_at = self.tokens.len() - 1;
        if is_module {
            self.inline_depth += 1;
            self.in_test |= self.module_is_test(opened_at - 2);
        }
        self.stream(group.stream());
        (self.in_test, self.inline_depth) = (in_test, inline_depth);
        self.tokens[opened_at].closes_at = self.tokens.len();
        self.push(close.to_string(), group.span_close().start());
    }

    /// Is the `mod` at this index preceded by `#[cfg(test)]`?
    fn module_is_test(&self, at: usize) -> bool {
        let before: Vec<&str> = self.tokens[at.saturating_sub(7)..at].iter().map(|token| token.text.as_str()).collect();
        before.ends_with(&["#", "[", "cfg", "(", "test", ")", "]"])
    }

    fn previous(&self, back: usize) -> &str {
        self.tokens.len().checked_sub(back).map_or("", |at| self.tokens[at].text.as_str())
    }

    fn push(&mut self, text: String, at: LineColumn) {
        self.tokens.push(Token { text, line: at.line, in_test: self.in_test, inline_depth: self.inline_depth, closes_at: 0 });
    }
}

/// Every Rust file of the library and its tests.
pub fn code() -> &'static [Source] {
    &CODE
}

/// Every Rust file of the library.
pub fn library() -> &'static [Source] {
    let tests_begin = CODE.iter().take_while(|source| source.path.starts_with("src/")).count();
    &CODE[..tests_begin]
}

/// Read once: parsing takes most of the time that these tests take.
static CODE: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let mut paths = Vec::new();
    for directory in ["src", "tests"] {
        walk(&repository().join(directory), &mut paths);
    }
    let rust = paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    rust.map(|path| Source::parse(&relative(path), &fs::read_to_string(path).unwrap())).collect()
});

/// Every file that a person wrote: no build output, no history.
pub fn all_files() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    walk(repository(), &mut paths);
    paths
}

pub fn relative(path: &Path) -> String {
    path.strip_prefix(repository()).unwrap().to_str().unwrap().to_string()
}

fn walk(directory: &Path, paths: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_str().unwrap_or_default();
        if path.is_symlink() || name == ".git" || name == "target" {
            continue;
        }
        if path.is_dir() { walk(&path, paths) } else { paths.push(path) }
    }
}

#[test]
fn tokens_know_their_line_their_module_and_whether_they_are_tests() {
    let source =
        Source::parse("src/a.rs", "fn f() {}\n// crate::gone\n#[cfg(test)]\nmod tests {\n    fn g() { \"crate::string\" }\n}\n");
    let place = |name: &str| &source.tokens[source.places(&format!("fn {name}")).next().unwrap()];
    assert_eq!((place("f").line, place("f").in_test, place("f").inline_depth), (1, false, 0));
    assert_eq!((place("g").line, place("g").in_test, place("g").inline_depth), (5, true, 1));
    assert_eq!(source.places("crate").count(), 0);
    assert!(library().len() > 20 && code().len() > library().len() + 10, "the repository's own files are found");
}
