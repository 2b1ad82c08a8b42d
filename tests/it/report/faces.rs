//! The faces: golden files, and text from outside that stays text.

use holdfast::report::model::Report;
use holdfast::report::{html, json, markdown};

use super::sample;

#[test]
fn golden_markdown() {
    insta::assert_snapshot!("passed.md", markdown::render(&sample::passed()));
    insta::assert_snapshot!("key_withheld.md", markdown::render(&sample::key_withheld()));
    insta::assert_snapshot!("undecryptable.md", markdown::render(&sample::undecryptable()));
    insta::assert_snapshot!("killed_and_gone_on.md", markdown::render(&sample::killed_and_gone_on()));
}

#[test]
fn golden_json() {
    insta::assert_snapshot!("passed.json", json::render(&sample::passed()).unwrap());
    insta::assert_snapshot!("key_withheld.json", json::render(&sample::key_withheld()).unwrap());
}

#[test]
fn a_stored_report_is_read_back_the_same() {
    for report in [sample::passed(), sample::key_withheld(), sample::undecryptable(), sample::killed_and_gone_on()] {
        assert_eq!(json::read(&json::value(&report).unwrap()).unwrap(), report);
    }
    assert_eq!(json::read(&serde_json::json!({"schema": 1})).unwrap_err().code().name, "record.invalid");
}

#[test]
fn the_page_stands_alone_and_runs_nothing() {
    for report in [sample::passed(), sample::key_withheld(), sample::undecryptable(), sample::killed_and_gone_on()] {
        let page = html::render(&report).unwrap();
        for forbidden in ["<script", "javascript:", " onload", " src=", "href=", "url(", "@import", "<link"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(page.replace("&#x2f;", "/").contains(&report.verdict.sentence.replace('&', "&amp;")));
        assert!(page.contains("default-src 'none'"));
    }
}

#[test]
fn objects_that_cannot_be_read_are_counted_and_named_and_else_there_is_no_such_section() {
    const TITLE: &str = "Objects that cannot be read";
    let mut report = sample::undecryptable();
    for page in [markdown::render(&report), html::render(&report).unwrap().replace("&#x2f;", "/")] {
        let at = page.find(TITLE).unwrap();
        let section = &page[at..];
        assert!(section.contains("3 objects did not open; the first 2 are shown."), "{section}");
        assert!(section.contains("/registry/secrets/default/db"));
        assert!(section.contains("aescbc \u{201c}key0\u{201d}"));
        assert!(section.contains("no key of this name is known"));
    }
    report.facts.decryption.as_mut().unwrap().opened = 29;
    assert!(markdown::render(&report).contains("2 objects did not open.\n"), "all are shown");
    for other in [sample::passed(), sample::key_withheld()] {
        assert!(!markdown::render(&other).contains(TITLE) && !html::render(&other).unwrap().contains(TITLE));
    }
}

/// A narrow window scrolls a table rather than squeezing a column to letters.
#[test]
fn tables_keep_a_width_that_can_be_read_in_a_narrow_window() {
    let page = html::render(&sample::passed()).unwrap();
    let narrow = page.lines().find(|line| line.starts_with("@media (max-width: 760px)")).unwrap();
    assert!(narrow.contains("section { overflow-x: auto; }"), "{narrow}");
    assert!(narrow.contains("table { min-width: ") && narrow.contains(".steps { min-width: "), "{narrow}");
}

/// Every text that comes from a snapshot, a store or a failure, made hostile.
fn hostile() -> Report {
    const TEXT: &str = "</td></svg><script>alert(1)</script>\"'&|`x`\n## *b* [l](javascript:x)\u{202e}";
    let mut report = sample::key_withheld();
    let failure = &mut report.failures[0].failure;
    (failure.object, failure.cause, failure.next) = (TEXT.into(), TEXT.into(), TEXT.into());
    report.verdict.sentence = TEXT.into();
    for step in &mut report.steps {
        (step.title, step.summary, step.pass) = (TEXT.into(), TEXT.into(), TEXT.into());
    }
    let keys = report.facts.keys.as_mut().unwrap();
    (keys.keys[0].name, keys.keys[0].fingerprint, keys.keys[0].cause) = (TEXT.into(), Some(TEXT.into()), Some(TEXT.into()));
    report.facts.snapshot.as_mut().unwrap().object_key = TEXT.into();
    report.resources[0].count.resource = TEXT.into();
    report
}

#[test]
fn hostile_names_stay_text_in_html() {
    let page = html::render(&hostile()).unwrap();
    assert!(!page.contains("<script"), "a name became markup");
    assert_eq!(page.matches("</svg>").count(), 1);
    assert!(!page.contains('\u{202e}'));
    assert!(page.contains("&lt;script&gt;"));
}

#[test]
fn hostile_names_stay_text_in_markdown() {
    let page = markdown::render(&hostile());
    // Inside a code span nothing is markup; everywhere else it is escaped.
    for line in page.lines() {
        let outside = line.split("``").step_by(2).collect::<String>().replace("\\]", "");
        assert!(!outside.contains("<script"), "{line}");
        assert!(!outside.contains("](javascript"), "{line}");
        assert!(!line.starts_with("## *b*"), "{line}");
    }
    assert!(!page.contains('\u{202e}'));
}

/// Every table has as many cells in each row as in its heading.
#[test]
fn hostile_names_break_no_table_in_markdown() {
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    for report in [hostile(), sample::passed()] {
        let page = markdown::render(&report);
        for pair in page.lines().collect::<Vec<_>>().windows(2) {
            if pair[0].starts_with('|') && pair[1].starts_with('|') {
                assert_eq!(cells(pair[0]), cells(pair[1]), "{pair:?}");
            }
        }
    }
}
