//! Cron lines: the five fields of crontab(5), in UTC.
//!
//! Owns: what a line means and when it comes round. A field is read here, with
//! a message for each mistake; `croner` only walks the calendar, and this is the
//! one file that knows it and its times.
//!
//! Invariant: a line that exists comes round: dates that no year has are refused.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;

/// Longer than any line that a person writes, and short enough to show.
const LONGEST: usize = 256;

/// A schedule: when something is due, to the minute.
#[derive(Debug, Clone)]
pub struct CronLine {
    text: String,
    cron: Cron,
}

/// Why a text is no cron line, as a phrase that follows the key's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadCronLine(String);

/// One of the five fields.
struct Field {
    name: &'static str,
    first: u8,
    last: u8,
    /// The name at position n means `first` + n.
    names: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", first: 0, last: 59, names: &[] };
const HOUR: Field = Field { name: "hour", first: 0, last: 23, names: &[] };
const DAY: Field = Field { name: "day of month", first: 1, last: 31, names: &[] };
const MONTH: Field = Field {
    name: "month",
    first: 1,
    last: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
/// 0 and 7 are both Sunday.
const WEEKDAY: Field =
    Field { name: "day of week", first: 0, last: 7, names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"] };

/// What people write instead of five fields.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl CronLine {
    /// The first time after `after` at which the line comes round; none beyond
    /// the end of the calendar.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.cron.find_next_occurrence(&utc(after)?, false).ok().and_then(timestamp)
    }

    /// The last time at or before `at` at which the line came round.
    #[must_use]
    pub fn latest_at_or_before(&self, at: Timestamp) -> Option<Timestamp> {
        self.cron.find_previous_occurrence(&utc(at)?, true).ok().and_then(timestamp)
    }
}

impl FromStr for CronLine {
    type Err = BadCronLine;

    fn from_str(text: &str) -> Result<Self, BadCronLine> {
        let bad = |message: String| BadCronLine(message);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.len() > LONGEST {
            return Err(bad(format!("must not be longer than {LONGEST} characters")));
        }
        let fields: Vec<&str> = if text.starts_with('@') { nickname(&text)? } else { &text }.split(' ').collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(bad(match fields.len() {
                1 if text.is_empty() => "must have five fields (minute, hour, day of month, month, day of week), not none".into(),
                6 => "must have five fields, not six: there is no field for seconds".into(),
                n => format!("must have five fields (minute, hour, day of month, month, day of week), not {n}"),
            }));
        };
        let (days, months, weekdays) = (DAY.read(day)?, MONTH.read(month)?, WEEKDAY.read(weekday)?);
        if weekday == "*" && !days.iter().any(|day| months.iter().any(|month| *day <= longest(*month))) {
            return Err(bad(format!("never comes round: no year has day {day} of month {month}")));
        }
        // crontab(5): both days restricted means either. A field that starts with '*' is not restricted.
        let both_must_match = day.starts_with('*') || weekday.starts_with('*');
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).dom_and_dow(both_must_match);
        let plain = [
            listed(minute, &MINUTE.read(minute)?),
            listed(hour, &HOUR.read(hour)?),
            listed(day, &days),
            listed(month, &months),
            listed(weekday, &weekdays),
        ];
        let cron = parser.build().parse(&plain.join(" ")).map_err(|e| bad(e.to_string()))?;
        Ok(Self { text, cron })
    }
}

impl fmt::Display for CronLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Two lines are the same when they are written the same.
impl PartialEq for CronLine {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for CronLine {}

impl Field {
    /// The values that a field names, in order.
    fn read(&self, text: &str) -> Result<Vec<u8>, BadCronLine> {
        let mut values = Vec::new();
        for part in text.split(',') {
            values.extend(self.part(part)?);
        }
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }

    /// `*`, `7`, `MON-FRI`, `*/5`, `10-40/10`.
    fn part(&self, part: &str) -> Result<Vec<u8>, BadCronLine> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (self.first, if self.names.first() == Some(&"SUN") { 6 } else { self.last }),
            Some((from, to)) => {
                let (from, to) = (self.value(from)?, self.value(to)?);
                // A week may also end with Sunday.
                let to = if to == 0 && from > 0 && self.last == 7 { 7 } else { to };
                if from > to {
                    return Err(self.bad(format!("runs backwards in {range:?}; write two ranges with a comma between them")));
                }
                (from, to)
            }
            None if step.is_some() => {
                return Err(self.bad(format!("has a step after a single value, {part:?}; write {range}-{}/…", self.last)));
            }
            None => (self.value(range)?, self.value(range)?),
        };
        Ok((from..=to).step_by(usize::from(step.unwrap_or(1))).collect())
    }

    fn step(&self, text: &str) -> Result<u8, BadCronLine> {
        let step = digits(text).filter(|step| (1..=self.last).contains(step));
        step.ok_or_else(|| self.bad(format!("has a step that is no number from 1 to {}: {text:?}", self.last)))
    }

    fn value(&self, text: &str) -> Result<u8, BadCronLine> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let named = named.and_then(|at| u8::try_from(at).ok()).map(|at| self.first + at);
        let value = named.or_else(|| digits(text)).filter(|value| (self.first..=self.last).contains(value));
        let names = match self.names {
            [first, .., last] => format!(" or {first} to {last}"),
            _ => String::new(),
        };
        value.ok_or_else(|| self.bad(format!("must be {} to {}{names}, not {text:?}", self.first, self.last)))
    }

    fn bad(&self, what: String) -> BadCronLine {
        BadCronLine(format!("{} {what}", self.name))
    }
}

fn digits(text: &str) -> Option<u8> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn nickname(text: &str) -> Result<&'static str, BadCronLine> {
    let known = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    known.map(|(_, fields)| *fields).ok_or_else(|| {
        let names: Vec<&str> = NICKNAMES.iter().map(|(name, _)| *name).collect();
        BadCronLine(format!("has no such short form; there are {}", names.join(", ")))
    })
}

/// The field for croner: plain numbers, but for one star that means "whatever".
fn listed(written: &str, values: &[u8]) -> String {
    if written == "*" { written.to_owned() } else { values.iter().map(u8::to_string).collect::<Vec<_>>().join(",") }
}

/// The most days that a month can have.
fn longest(month: u8) -> u8 {
    match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// To the second: croner would carry fractions on.
fn utc(at: Timestamp) -> Option<DateTime<Utc>> {
    let seconds = at.as_second() - i64::from(at.subsec_nanosecond() < 0);
    DateTime::from_timestamp(seconds, 0)
}

fn timestamp(at: DateTime<Utc>) -> Option<Timestamp> {
    Timestamp::from_second(at.timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> CronLine {
        text.parse().unwrap_or_else(|bad| panic!("{text}: {bad}"))
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn lines_come_round_when_people_expect() {
        // 2026-12-01 is a Tuesday.
        for (text, after, next) in [
            ("* * * * *", "2026-12-01T10:00:00Z", "2026-12-01T10:01:00Z"),
            ("0 * * * *", "2026-12-01T10:00:00.5Z", "2026-12-01T11:00:00Z"),
            ("*/15 * * * *", "2026-12-01T10:14:59.9Z", "2026-12-01T10:15:00Z"),
            ("10-40/10 9-17 * * *", "2026-12-01T17:40:00Z", "2026-12-02T09:10:00Z"),
            ("5,35 0,12 * * *", "2026-12-01T00:36:00Z", "2026-12-01T12:05:00Z"),
            ("30 3 * * *", "2026-12-31T03:30:00Z", "2027-01-01T03:30:00Z"),
            ("0 0 * * 0", "2026-12-01T00:00:00Z", "2026-12-06T00:00:00Z"),
            ("0 0 * * 7", "2026-12-01T00:00:00Z", "2026-12-06T00:00:00Z"),
            ("0 0 * * sun", "2026-12-01T00:00:00Z", "2026-12-06T00:00:00Z"),
            ("0 3 * * 1", "2026-12-01T00:00:00Z", "2026-12-07T03:00:00Z"),
            ("0 0 * * MON-FRI", "2026-12-04T00:00:00Z", "2026-12-07T00:00:00Z"),
            ("0 0 * * FRI-SUN", "2026-12-01T00:00:00Z", "2026-12-04T00:00:00Z"),
            ("0 0 * * FRI-SUN", "2026-12-05T00:00:00Z", "2026-12-06T00:00:00Z"),
            ("0 0 * * sat,wed", "2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z"),
            ("0 0 * * */2", "2026-12-03T00:00:00Z", "2026-12-05T00:00:00Z"),
            ("0 0 31 * *", "2026-12-31T00:00:00Z", "2027-01-31T00:00:00Z"),
            ("0 0 31 * *", "2027-01-31T00:00:00Z", "2027-03-31T00:00:00Z"),
            ("0 0 29 2 *", "2026-12-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 29 feb *", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"),
            ("59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"),
            ("0 0 1 JAN-mar *", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            // Both days restricted: either. One of them with a star: both, as crontab(5) has it.
            ("0 0 13 * FRI", "2026-12-01T00:00:00Z", "2026-12-04T00:00:00Z"),
            ("0 0 13 * FRI", "2026-12-11T00:00:00Z", "2026-12-13T00:00:00Z"),
            ("0 0 */2 * MON", "2026-12-01T00:00:00Z", "2026-12-07T00:00:00Z"),
            ("0 0 */2 * MON", "2026-12-07T00:00:00Z", "2026-12-21T00:00:00Z"),
            ("0 0 30 2 MON", "2026-12-01T00:00:00Z", "2027-02-01T00:00:00Z"),
            ("@hourly", "2026-12-01T10:59:59Z", "2026-12-01T11:00:00Z"),
            ("@daily", "2026-12-01T10:00:00Z", "2026-12-02T00:00:00Z"),
            ("@midnight", "2026-12-01T10:00:00Z", "2026-12-02T00:00:00Z"),
            ("@weekly", "2026-12-01T10:00:00Z", "2026-12-06T00:00:00Z"),
            ("@monthly", "2026-12-01T10:00:00Z", "2027-01-01T00:00:00Z"),
            ("@Yearly", "2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"),
            ("  0   3 *\t* * ", "2026-12-01T00:00:00Z", "2026-12-01T03:00:00Z"),
        ] {
            assert_eq!(line(text).next_after(at(after)), Some(at(next)), "{text} after {after}");
        }
    }

    #[test]
    fn the_latest_slot_is_at_or_before_now() {
        for (text, now, latest) in [
            ("* * * * *", "2026-12-01T10:00:59.999Z", "2026-12-01T10:00:00Z"),
            ("0 * * * *", "2026-12-01T10:00:00Z", "2026-12-01T10:00:00Z"),
            ("0 * * * *", "2026-12-01T09:59:59Z", "2026-12-01T09:00:00Z"),
            ("30 3 * * *", "2027-01-01T03:29:00Z", "2026-12-31T03:30:00Z"),
            ("0 0 31 * *", "2027-03-30T23:59:59Z", "2027-01-31T00:00:00Z"),
            ("0 0 29 2 *", "2028-02-28T00:00:00Z", "2024-02-29T00:00:00Z"),
            ("0 0 13 * FRI", "2026-12-17T00:00:00Z", "2026-12-13T00:00:00Z"),
        ] {
            assert_eq!(line(text).latest_at_or_before(at(now)), Some(at(latest)), "{text} at {now}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_is_wrong() {
        for (text, message) in [
            ("", "must have five fields (minute, hour, day of month, month, day of week), not none"),
            ("0 3 * *", "must have five fields (minute, hour, day of month, month, day of week), not 4"),
            ("0 0 3 * * *", "must have five fields, not six: there is no field for seconds"),
            ("60 * * * *", "minute must be 0 to 59, not \"60\""),
            ("* 24 * * *", "hour must be 0 to 23, not \"24\""),
            ("* * 0 * *", "day of month must be 1 to 31, not \"0\""),
            ("* * * 13 *", "month must be 1 to 12 or JAN to DEC, not \"13\""),
            ("* * * * 8", "day of week must be 0 to 7 or SUN to SAT, not \"8\""),
            ("* * * * monday", "day of week must be 0 to 7 or SUN to SAT, not \"monday\""),
            ("* * * * JAN", "day of week must be 0 to 7 or SUN to SAT, not \"JAN\""),
            ("1,,2 * * * *", "minute must be 0 to 59, not \"\""),
            ("*/0 * * * *", "minute has a step that is no number from 1 to 59: \"0\""),
            ("*/x * * * *", "minute has a step that is no number from 1 to 59: \"x\""),
            ("5/15 * * * *", "minute has a step after a single value, \"5/15\"; write 5-59/…"),
            ("40-10 * * * *", "minute runs backwards in \"40-10\"; write two ranges with a comma between them"),
            ("0 0 * * FRI-MON", "day of week runs backwards in \"FRI-MON\"; write two ranges with a comma between them"),
            ("+5 * * * *", "minute must be 0 to 59, not \"+5\""),
            ("0 0 L * *", "day of month must be 1 to 31, not \"L\""),
            ("0 0 ? * *", "day of month must be 1 to 31, not \"?\""),
            ("0 0 * * 5#2", "day of week must be 0 to 7 or SUN to SAT, not \"5#2\""),
            ("0 0 30 2 *", "never comes round: no year has day 30 of month 2"),
            ("0 0 31 APR,jun *", "never comes round: no year has day 31 of month APR,jun"),
            ("@reboot", "has no such short form; there are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"),
            ("every hour", "must have five fields (minute, hour, day of month, month, day of week), not 2"),
        ] {
            assert_eq!(text.parse::<CronLine>().unwrap_err().to_string(), message, "{text:?}");
        }
        assert!("1,".repeat(200).parse::<CronLine>().is_err());
    }

    #[test]
    fn a_line_is_shown_as_it_was_written() {
        assert_eq!(line(" 0  3 * * mon ").to_string(), "0 3 * * mon");
        assert_eq!(line("@hourly").to_string(), "@hourly");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics_and_every_line_comes_round(text in "[-0-9*/,a-zA-Z@ ]{0,24}", seconds in -2_000_000_000_i64..4_000_000_000) {
            if let Ok(line) = text.parse::<CronLine>() {
                let now = Timestamp::from_second(seconds).unwrap();
                let (latest, next) = (line.latest_at_or_before(now).unwrap(), line.next_after(now).unwrap());
                proptest::prop_assert!(latest <= now && now < next, "{latest} {now} {next}");
                proptest::prop_assert_eq!(line.latest_at_or_before(next), Some(next));
            }
        }

        #[test]
        fn slots_are_the_same_from_either_side(
            minute in 0_u8..60, hour in 0_u8..24, day in 1_u8..29, weekday in 0_u8..8, seconds in 0_i64..4_000_000_000
        ) {
            let line = line(&format!("{minute} {hour} {day} * {weekday}"));
            let now = Timestamp::from_second(seconds).unwrap();
            let next = line.next_after(now).unwrap();
            let before = next - jiff::SignedDuration::from_secs(1);
            proptest::prop_assert!(line.latest_at_or_before(before).unwrap() <= now);
            proptest::prop_assert_eq!(next.as_second() % 60, 0);
        }
    }
}
