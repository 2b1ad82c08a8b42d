//! What a component's log says about keys and data, in an operator's terms.
//!
//! The API server joins the errors of several providers into one line, so all
//! causes that a text names are listed, none is picked.

use crate::k8s::trial::{Cause, OpenError};

/// Texts that are not about one stored value, and what they mean.
const OTHERS: &[(&str, &str)] = &[
    ("illegal base64 data at input byte", "the API server ran without its EncryptionConfiguration over encrypted data"),
    ("got unexpected nil transformer", "a KMS plugin gave no healthy answer"),
    ("failed to decrypt DEK", "a KMS plugin refused a key, or cannot reach its own"),
    ("keyID is empty", "a KMS plugin too old to name its key"),
    ("KMSv1 is deprecated", "a KMS v1 provider needs the feature gate KMSv1"),
    ("database space exceeded", "an alarm NOSPACE in the snapshot stops all writes"),
    ("etcdserver: corrupt cluster", "an alarm CORRUPT in the snapshot: its source found its own data damaged"),
    ("Failed to validate schema", "an etcd that is older than the data"),
    ("snapshot missing hash but --skip-hash-check=false", "not a whole snapshot: a raw copy or a cut file"),
];

/// Those causes as the end of a sentence; nothing where the log names none.
#[must_use]
pub fn named(log: &str) -> String {
    let causes = causes(log);
    if causes.is_empty() { String::new() } else { format!("; its log says: {}", causes.join("; ")) }
}

/// Every cause that a log names, each once, in words.
#[must_use]
pub fn causes(log: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |cause: &str| {
        if !found.iter().any(|known| known == cause) {
            found.push(cause.to_owned());
        }
    };
    for error in OpenError::all_in(log) {
        add(words(error.cause()));
    }
    for (text, cause) in OTHERS {
        if log.contains(text) {
            add(cause);
        }
    }
    found
}

fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::ProviderMissing => "no provider in the EncryptionConfiguration fits the stored data",
        Cause::KeyNameMissing => "the provider has no key of the name that the stored data carries",
        Cause::MaterialDiffers => "a key of the right name has other material",
        Cause::ConfigMissing => "the EncryptionConfiguration has no rule for encrypted data",
        Cause::Damaged => "stored data that no provider could have written",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_texts_of_the_table_are_told_apart() {
        for (log, words) in [
            ("unable to transform key \"/registry/secrets/a/b\": no matching prefix found", "no provider"),
            ("no matching key was found for the provided AES transformer", "no key of the name"),
            ("no matching key was found for the provided Secretbox transformer", "no key of the name"),
            ("invalid padding on input", "other material"),
            ("invalid PKCS7 data (empty or not padded)", "other material"),
            ("output array was not large enough for encryption", "other material"),
            ("cipher: message authentication failed", "other material"),
            ("identity transformer tried to read encrypted data", "no rule"),
            ("illegal base64 data at input byte 3", "without its EncryptionConfiguration"),
            ("failed to decrypt DEK, error: rpc error", "KMS plugin refused"),
            ("keyID is empty", "too old"),
            ("got unexpected nil transformer", "no healthy answer"),
            ("KMSv1 is deprecated. Set --feature-gates=KMSv1=true", "feature gate"),
        ] {
            let causes = causes(log);
            assert!(causes.len() == 1 && causes[0].contains(words), "{log}: {causes:?}");
        }
    }

    #[test]
    fn joined_texts_name_every_candidate_and_a_clean_log_names_none() {
        let joined = "[no matching key was found for the provided AES transformer, invalid padding on input]";
        assert_eq!(causes(joined).len(), 2);
        assert_eq!(causes("I1201 all is well"), Vec::<String>::new());
    }
}
