//! Licence expressions of packages: SPDX terms with OR, AND and parentheses,
//! and the older `/` for OR.

/// Licences whose terms an Apache-2.0 program can be shipped under.
const ACCEPTED: [&str; 13] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// May a package under this expression be used?
pub fn is_accepted(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, at: 0 };
    let accepted = reader.alternatives();
    accepted && reader.at == words.len()
}

struct Reader<'a> {
    words: &'a [&'a str],
    at: usize,
}

impl Reader<'_> {
    fn alternatives(&mut self) -> bool {
        let mut accepted = self.conjunction();
        while self.takes("OR") {
            accepted |= self.conjunction();
        }
        accepted
    }

    fn conjunction(&mut self) -> bool {
        let mut accepted = self.term();
        while self.takes("AND") {
            accepted &= self.term();
        }
        accepted
    }

    fn term(&mut self) -> bool {
        if self.takes("(") {
            let accepted = self.alternatives();
            return self.takes(")") && accepted;
        }
        let Some(name) = self.words.get(self.at) else { return false };
        self.at += 1;
        if !self.takes("WITH") {
            return ACCEPTED.contains(name);
        }
        let exception = self.words.get(self.at).copied().unwrap_or_default();
        self.at += 1;
        ACCEPTED.contains(&format!("{name} WITH {exception}").as_str())
    }

    fn takes(&mut self, word: &str) -> bool {
        let found = self.words.get(self.at) == Some(&word);
        self.at += usize::from(found);
        found
    }
}

#[test]
fn accepted_expressions() {
    for expression in [
        "MIT",
        "MIT OR Apache-2.0",
        "Apache-2.0 / MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 OR GPL-2.0-only",
        "GPL-2.0-only OR MIT AND ISC",
        "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
    ] {
        assert!(is_accepted(expression), "{expression}");
    }
}

#[test]
fn refused_expressions() {
    for expression in [
        "",
        "GPL-3.0-only",
        "MIT AND AGPL-3.0-only",
        "(MIT OR Apache-2.0) AND MPL-2.0",
        "GPL-2.0-only WITH Classpath-exception-2.0",
        "(MIT",
        "MIT Apache-2.0",
    ] {
        assert!(!is_accepted(expression), "{expression}");
    }
}
