//! The timeline of steps as an inline SVG: own small code, no script.

use std::fmt::Write as _;

use super::document::{Bar, Span, Text, Tone};

/// Sizes in SVG units; the drawing scales to the width of the page.
const WIDTH: f64 = 960.0;
const LABELS: f64 = 310.0;
const VALUES: f64 = 80.0;
const ROW: f64 = 24.0;
const TOP: f64 = 28.0;
/// A step that took no time worth drawing is still there to see.
const NARROWEST: f64 = 2.0;
/// Labels are cut where they would run into the bars; the whole title stands in the table of steps.
const LABEL_LENGTH: usize = 42;

/// The colours that a title does not explain.
const LEGEND: &str = "<p class=\"legend\"><i class=\"waiting\"></i>waiting for a person<i class=\"hands\"></i>hands on</p>";

/// One row per bar, in order, under a scale of the whole run.
#[must_use]
pub fn timeline(bars: &[Bar]) -> String {
    let end = bars.iter().flat_map(|bar| &bar.spans).map(end).max().unwrap_or(0).max(1);
    let step = tick(end);
    let scale = |ms: u64| LABELS + position(ms, end) * (WIDTH - LABELS - VALUES);
    let height = TOP + ROW * count(bars.len()) + 8.0;
    let mut svg =
        format!("<svg class=\"timeline\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Timeline of steps\">\n");
    for ms in (0..=end).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        let x = scale(ms);
        let _ = writeln!(svg, "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{:.1}\"/>", height - 8.0);
        let _ = writeln!(svg, "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>", TOP - 10.0, mark(ms, step));
    }
    for (index, bar) in bars.iter().enumerate() {
        row(&mut svg, bar, TOP + ROW * count(index), scale);
    }
    svg.push_str("</svg>");
    if bars.iter().flat_map(|bar| &bar.spans).any(|span| matches!(span.tone, Tone::Waiting | Tone::Hands)) {
        svg.push_str(LEGEND);
    }
    svg
}

fn row(svg: &mut String, bar: &Bar, y: f64, scale: impl Fn(u64) -> f64) {
    let middle = y + ROW / 2.0 + 4.0;
    let strong = if bar.is_phase { " strong" } else { "" };
    let label = escape(&cut(&bar.label));
    let _ = writeln!(svg, "<text class=\"label{strong}\" x=\"{:.1}\" y=\"{middle:.1}\">{label}</text>", LABELS - 12.0);
    for span in &bar.spans {
        let tone = match span.tone {
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Doubt => "doubt",
            Tone::Plain => "phase",
            Tone::Muted => "muted",
            Tone::Waiting => "waiting",
            Tone::Hands => "hands",
        };
        let from = scale(span.start_ms);
        let width = (scale(end(span)) - from).max(NARROWEST);
        let (top, height) = (y + 5.0, ROW - 10.0);
        let _ = writeln!(
            svg,
            "<rect class=\"{tone}\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\"/>"
        );
        if !span.value.is_empty() {
            let value = escape(span.value.as_str());
            let _ = writeln!(svg, "<text class=\"value\" x=\"{:.1}\" y=\"{middle:.1}\">{value}</text>", from + width + 6.0);
        }
    }
}

fn end(span: &Span) -> u64 {
    span.start_ms.saturating_add(span.duration_ms.unwrap_or(0))
}

/// A round distance that gives four to ten marks.
fn tick(end_ms: u64) -> u64 {
    const ROUND: [u64; 18] = [
        10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000,
        14_400_000,
    ];
    ROUND.into_iter().find(|step| end_ms / step < 10).unwrap_or(end_ms / 8 + 1)
}

/// The time at a mark, in the unit of the distance between marks.
fn mark(ms: u64, step: u64) -> String {
    match step {
        _ if ms == 0 => "0".to_owned(),
        0..100 => format!("{ms} ms"),
        100..1_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        1_000..60_000 => format!("{} s", ms / 1000),
        60_000..3_600_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}

#[allow(clippy::cast_precision_loss)] // a place in a drawing
fn position(ms: u64, end: u64) -> f64 {
    ms as f64 / end as f64
}

#[allow(clippy::cast_precision_loss)] // a number of rows
fn count(rows: usize) -> f64 {
    rows as f64
}

fn cut(label: &Text) -> String {
    let text = label.as_str();
    if text.chars().count() <= LABEL_LENGTH {
        return text.to_owned();
    }
    text.chars().take(LABEL_LENGTH - 1).chain(['…']).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
