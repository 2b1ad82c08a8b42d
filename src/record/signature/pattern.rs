//! Pattern lists as OpenSSH reads them: `*` and `?`, commas, `!` to exclude.

/// Does `text` match one pattern of the list, and none that is negated? A
/// negated pattern never matches by itself.
#[must_use]
pub fn list_matches(text: &str, list: &str) -> bool {
    let mut matched = false;
    for item in list.split(',') {
        match item.strip_prefix('!') {
            Some(excluded) if matches(text.as_bytes(), excluded.as_bytes()) => return false,
            Some(_) => {}
            None => matched |= matches(text.as_bytes(), item.as_bytes()),
        }
    }
    matched
}

/// Matches without recursion: on a mismatch the last `*` takes one more byte,
/// so the work is at most the product of both lengths.
fn matches(text: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut in_pattern) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(in_pattern) {
            Some(b'*') => {
                star = Some((in_pattern, at));
                in_pattern += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[at] => {
                at += 1;
                in_pattern += 1;
            }
            _ => match star {
                Some((star_at, taken_to)) => {
                    star = Some((star_at, taken_to + 1));
                    in_pattern = star_at + 1;
                    at = taken_to + 1;
                }
                None => return false,
            },
        }
    }
    pattern[in_pattern..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_openssh_says() {
        for (text, list, expected) in [
            ("cp-1", "cp-1", true),
            ("cp-1", "cp-2", false),
            ("cp-1", "cp-?", true),
            ("cp-12", "cp-?", false),
            ("cp-12", "cp-*", true),
            ("cp-", "cp-*", true),
            ("cp-1", "*", true),
            ("cp-1", "rh-1,cp-1", true),
            ("cp-1", "!cp-1,*", false),
            ("cp-1", "*,!cp-1", false),
            ("cp-2", "!cp-1,*", true),
            ("cp-2", "!cp-1", false),
            ("cp-1", "", false),
            ("aaab", "*a*b", true),
            ("aaac", "*a*b", false),
            ("CP-1", "cp-1", false),
        ] {
            assert_eq!(list_matches(text, list), expected, "{text} against {list}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_ends() {
        assert!(!list_matches(&"a".repeat(200), &format!("{}b", "*a".repeat(100))));
    }
}
