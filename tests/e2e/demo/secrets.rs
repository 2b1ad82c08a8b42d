//! P10: key bytes, identities and Secret values reach nothing but their homes.

use std::collections::BTreeSet;
use std::path::Path;

use aho_corasick::AhoCorasick;
use data_encoding::{BASE64, BASE64URL, HEXLOWER, HEXUPPER};
use holdfast::k8s::encryption_config::EncryptionConfig;

use super::image;
use super::show::{Show, files, show, snapshots};

/// Something secret, and the files that may hold it.
struct Planted {
    what: String,
    bytes: Vec<u8>,
    homes: Vec<&'static str>,
}

fn planted(show: &Show) -> Vec<Planted> {
    let yaml = std::fs::read(show.folder.join("production/encryption.yaml")).unwrap();
    let config = EncryptionConfig::parse(&yaml).unwrap();
    let mut planted: Vec<_> = config
        .keys()
        .into_iter()
        .map(|key| Planted {
            what: format!("material of {}", key.name()),
            bytes: key.secret().expose().clone(),
            homes: vec!["production/encryption.yaml"],
        })
        .collect();
    assert_eq!(planted.len(), 2);
    for name in ["snapshots-identity.txt", "escrow-identity.txt"] {
        let text = std::fs::read_to_string(show.folder.join("hosts/rehearsal-1").join(name)).unwrap();
        let home = if name.starts_with("snapshots") {
            "hosts/rehearsal-1/snapshots-identity.txt"
        } else {
            "hosts/rehearsal-1/escrow-identity.txt"
        };
        planted.push(Planted { what: name.to_owned(), bytes: text.trim().as_bytes().to_vec(), homes: vec![home] });
    }
    for host in ["cp-1", "rehearsal-1"] {
        let home = if host == "cp-1" { "hosts/cp-1/signing.key" } else { "hosts/rehearsal-1/signing.key" };
        let text = std::fs::read_to_string(show.folder.join(home)).unwrap();
        let line = text.lines().nth(2).unwrap().as_bytes().to_vec();
        planted.push(Planted { what: format!("signing key of {host}"), bytes: line, homes: vec![home] });
    }
    planted.extend(secret_values(show, config));
    planted
}

/// Values of Secrets, opened from the newest snapshot as a restore would.
fn secret_values(show: &Show, config: EncryptionConfig) -> Vec<Planted> {
    let values = image::secret_values(&image::open(show, &snapshots(show)[1]), config);
    let passwords: Vec<_> = values.into_iter().filter(|(name, _)| name.ends_with("/password")).collect();
    assert_eq!(passwords.len(), 20);
    passwords.into_iter().map(|(what, bytes)| Planted { what, bytes, homes: vec![] }).collect()
}

/// The bytes as they are and as text that holds them: hex, and base64 at each
/// of its three alignments without the characters that neighbours change.
fn forms(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![bytes.to_vec(), HEXLOWER.encode(bytes).into_bytes(), HEXUPPER.encode(bytes).into_bytes()];
    for shift in 0..3 {
        let mut shifted = vec![0; shift];
        shifted.extend_from_slice(bytes);
        for encoding in [&BASE64, &BASE64URL] {
            let text = encoding.encode(&shifted);
            let text = text.trim_end_matches('=');
            forms.push(text.as_bytes()[shift.div_ceil(3) * 4..text.len() - 1].to_vec());
        }
    }
    forms
}

/// All forms of all secrets, searched for in one pass.
struct Search {
    finder: AhoCorasick,
    /// Which planted secret a pattern is a form of.
    owners: Vec<usize>,
}

impl Search {
    fn of<'a>(secrets: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut patterns = Vec::new();
        let mut owners = Vec::new();
        for (owner, secret) in secrets.into_iter().enumerate() {
            for form in forms(secret) {
                patterns.push(form);
                owners.push(owner);
            }
        }
        Self { finder: AhoCorasick::new(&patterns).unwrap(), owners }
    }

    /// The secrets found in `text`, each once.
    fn find(&self, text: &[u8]) -> BTreeSet<usize> {
        self.finder.find_overlapping_iter(text).map(|hit| self.owners[hit.pattern().as_usize()]).collect()
    }
}

#[test]
fn the_search_finds_a_secret_in_each_of_its_forms() {
    let secret = b"0123456789abcdef0123456789abcdef";
    let search = Search::of([secret.as_slice()]);
    let holds = |text: &[u8]| !search.find(text).is_empty();
    for prefix in ["", "x", "xy"] {
        let mut text = prefix.as_bytes().to_vec();
        text.extend_from_slice(secret);
        text.push(b'z');
        assert!(holds(&text));
        assert!(holds(BASE64.encode(&text).as_bytes()), "base64 after {prefix:?}");
        assert!(holds(HEXLOWER.encode(&text).as_bytes()));
    }
    assert!(!holds(b"0123456789abcdef0123456789abcdeX"));
}

#[test]
fn no_secret_is_in_any_output_argument_list_or_file_but_its_home() {
    let show = show();
    let planted = planted(show);
    let search = Search::of(planted.iter().map(|planted| planted.bytes.as_slice()));
    let mut found = Vec::new();
    for owner in search.find(show.output.as_bytes()) {
        found.push(format!("{} in the output", planted[owner].what));
    }
    for owner in show.arguments.iter().flat_map(|line| search.find(line)) {
        found.push(format!("{} in an argument list", planted[owner].what));
    }
    let mut at_home = BTreeSet::new();
    for file in files(&show.folder) {
        let name = file.strip_prefix(&show.folder).unwrap();
        for owner in search.find(&std::fs::read(&file).unwrap()) {
            if planted[owner].homes.iter().any(|home| Path::new(home) == name) {
                at_home.insert(owner);
            } else {
                found.push(format!("{} in {}", planted[owner].what, name.display()));
            }
        }
    }
    assert_eq!(found, Vec::<String>::new());
    for (owner, planted) in planted.iter().enumerate() {
        assert!(planted.homes.is_empty() || at_home.contains(&owner), "{} is not even in its home", planted.what);
    }
    assert!(show.arguments.len() > 10, "the look at argument lists saw too little to mean anything");
}
