//! Sizes and durations as people write and read them.

use std::time::Duration;

/// Bytes with binary units, three significant digits: `36.0 KiB`.
#[must_use]
#[allow(clippy::cast_precision_loss)] // display only
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit < UNITS.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ if value < 100.0 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// Reads `2GiB`, `512 MiB`, `1048576`; decimal units (`GB`) are accepted too.
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let factor = match text[digits..].trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// A duration for tables and reports: `4.2 s`, `3 min 7 s`, `2 h 5 min`.
#[must_use]
pub fn human_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.as_millis() < 1000 => format!("{} ms", duration.as_millis()),
        0..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86400, seconds % 86400 / 3600),
    }
}

/// A duration as people say it: `30 min`, not `30 min 0 s`.
#[must_use]
pub fn round_duration(duration: Duration) -> String {
    let text = human_duration(duration);
    let round = [" 0 s", " 0 min", " 0 h"].iter().find_map(|rest| text.strip_suffix(rest));
    round.map_or_else(|| text.clone(), str::to_owned)
}

/// `1 object`, `2 keys`, `3 processes`, `4 entries`: counts that read as sentences.
#[must_use]
pub fn count(n: u64, noun: &str) -> String {
    let stem = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match (n, stem) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{n} {stem}ies"),
        (_, None) if noun.ends_with('s') => format!("{n} {noun}es"),
        (_, None) => format!("{n} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("2GiB", Some(2 << 30)),
            ("512 MiB", Some(512 << 20)),
            ("1 GB", Some(1_000_000_000)),
            ("", None),
            ("GiB", None),
            ("1.5 GiB", None),
            ("-1", None),
            ("99999999999 TiB", None),
        ] {
            assert_eq!(parse_bytes(text), bytes, "{text:?}");
        }
    }

    #[test]
    fn counts_read_as_sentences() {
        for (n, noun, text) in [
            (0, "object", "0 objects"),
            (1, "process", "1 process"),
            (2, "process", "2 processes"),
            (2, "key", "2 keys"),
            (2, "raft entry", "2 raft entries"),
        ] {
            assert_eq!(count(n, noun), text);
        }
    }

    #[test]
    fn bytes_and_durations_are_short() {
        assert_eq!(human_bytes(36_864), "36.0 KiB");
        assert_eq!(human_bytes(7), "7 B");
        assert_eq!(human_duration(Duration::from_millis(4_230)), "4.2 s");
        assert_eq!(human_duration(Duration::from_secs(187)), "3 min 7 s");
        assert_eq!(round_duration(Duration::from_secs(180)), "3 min");
        assert_eq!(round_duration(Duration::from_secs(187)), "3 min 7 s");
    }
}
