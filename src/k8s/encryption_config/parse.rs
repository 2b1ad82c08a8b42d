//! From YAML to a checked configuration: strict decoding, then the API
//! server's rules, without stopping at the first mistake.

use zeroize::Zeroizing;

use super::kms;
use super::mistakes::ConfigMistakes;
use super::resource_rules::ResourceRules;
use super::yaml::{self, Node, Value};
use super::{EncryptionConfig, KmsProvider, Provider, Rule};
use crate::base::secret::Secret;
use crate::k8s::local_key::{LocalKey, LocalProvider};

const PROVIDERS: [&str; 5] = ["aescbc", "aesgcm", "secretbox", "kms", "identity"];

pub(super) fn parse(yaml: &[u8]) -> Result<EncryptionConfig, ConfigMistakes> {
    let root = yaml::read(yaml).map_err(|mistake| ConfigMistakes(vec![mistake]))?;
    let mut parser =
        Parser { mistakes: ConfigMistakes::none_yet(), resource_rules: ResourceRules::default(), kms_names: Vec::new() };
    let rules = parser.root(&root);
    if parser.mistakes.is_empty() { Ok(EncryptionConfig { rules }) } else { Err(parser.mistakes.by_line()) }
}

struct Parser {
    mistakes: ConfigMistakes,
    resource_rules: ResourceRules,
    /// Of all KMS providers so far: a v2 name must be the only one.
    kms_names: Vec<String>,
}

/// The fields of a map that are known; doubled ones count as the last.
struct Fields<'n>(Vec<(&'static str, &'n Node)>);

impl<'n> Fields<'n> {
    /// The field, unless it is absent or null, which the API server takes for absent.
    fn get(&self, name: &str) -> Option<&'n Node> {
        let found = self.0.iter().rev().find(|(known, _)| *known == name).map(|(_, node)| *node);
        found.filter(|node| !matches!(node.value, Value::Null))
    }
}

impl Parser {
    fn root(&mut self, root: &Node) -> Vec<Rule> {
        let Some(fields) = self.fields(root, "", &["apiVersion", "kind", "resources"]) else { return Vec::new() };
        self.type_meta(root, &fields);
        let rules = self.list(fields.get("resources"), "resources");
        if rules.is_empty() {
            self.mistakes.add(root.line, "resources", "at least one resources is required");
        }
        rules.iter().enumerate().filter_map(|(i, rule)| self.rule(rule, &format!("resources[{i}]"))).collect()
    }

    fn type_meta(&mut self, root: &Node, fields: &Fields<'_>) {
        let mut read = |name| fields.get(name).map_or(Some(Zeroizing::default()), |node| self.text(node, name));
        let (Some(version), Some(kind)) = (read("apiVersion"), read("kind")) else { return };
        match (version.as_str(), kind.as_str()) {
            ("apiserver.config.k8s.io/v1", "EncryptionConfiguration") | ("v1", "EncryptionConfig") => {}
            ("", _) => self.mistakes.add(root.line, "apiVersion", "missing; it is apiserver.config.k8s.io/v1"),
            (_, "") => self.mistakes.add(root.line, "kind", "missing; it is EncryptionConfiguration"),
            _ => self.mistakes.add(
                root.line,
                "apiVersion",
                "no such kind: only EncryptionConfiguration of apiserver.config.k8s.io/v1 and EncryptionConfig of v1 are read",
            ),
        }
    }

    fn rule(&mut self, node: &Node, path: &str) -> Option<Rule> {
        let fields = self.fields(node, path, &["resources", "providers"])?;
        let names_path = format!("{path}.resources");
        let names: Vec<(u64, String)> = self
            .list(fields.get("resources"), &names_path)
            .iter()
            .enumerate()
            .filter_map(|(i, name)| {
                let text = self.text(name, &format!("{names_path}[{i}]"))?;
                Some((name.line, text.to_string()))
            })
            .collect();
        self.resource_rules.check(node.line, &names_path, &names, &mut self.mistakes);

        let providers_path = format!("{path}.providers");
        let elements = self.list(fields.get("providers"), &providers_path);
        if elements.is_empty() {
            self.mistakes.add(node.line, &providers_path, "at least one provider is required");
        }
        let providers = elements
            .iter()
            .enumerate()
            .filter_map(|(i, element)| self.provider(element, &format!("{providers_path}[{i}]")))
            .collect();
        Some(Rule { resources: names.into_iter().map(|(_, name)| name).collect(), providers })
    }

    fn provider(&mut self, node: &Node, path: &str) -> Option<Provider> {
        let fields = self.fields(node, path, &PROVIDERS)?;
        let present: Vec<(&str, &Node)> =
            PROVIDERS.iter().filter_map(|name| fields.get(name).map(|node| (*name, node))).collect();
        if present.is_empty() {
            let what = "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity";
            self.mistakes.add(node.line, path, what);
        }
        if present.len() > 1 {
            let what = "more than one provider specified in a single element, should split into different list elements";
            self.mistakes.add(node.line, path, what);
        }
        let mut provider = None;
        for (name, node) in present {
            let path = format!("{path}.{name}");
            provider = match (name, LocalProvider::parse(name)) {
                (_, Some(kind)) => self.keys(node, &path, kind).and_then(Provider::of_keys),
                ("kms", None) => self.kms(node, &path).map(Provider::Kms),
                _ => self.fields(node, &path, &[]).map(|_| Provider::Identity),
            };
        }
        provider
    }

    fn keys(&mut self, node: &Node, path: &str, kind: LocalProvider) -> Option<Vec<LocalKey>> {
        let fields = self.fields(node, path, &["keys"])?;
        let path = format!("{path}.keys");
        let elements = self.list(fields.get("keys"), &path);
        if elements.is_empty() {
            self.mistakes.add(node.line, &path, "at least one keys is required");
        }
        Some(elements.iter().enumerate().filter_map(|(i, key)| self.key(key, &format!("{path}[{i}]"), kind)).collect())
    }

    fn key(&mut self, node: &Node, path: &str, kind: LocalProvider) -> Option<LocalKey> {
        let fields = self.fields(node, path, &["name", "secret"])?;
        let name = self.mandatory(&fields, node, path, "name", "key");
        let secret = self.mandatory(&fields, node, path, "secret", "key")?;
        let path = format!("{path}.secret");
        let line = fields.get("secret").map_or(node.line, |node| node.line);
        let Some(secret) = decode_secret(&secret) else {
            self.mistakes.add(line, path, "secrets must be base64 encoded");
            return None;
        };
        // The length is checked even when the name is missing, so that both mistakes show.
        let checked = LocalKey::new(kind, name.as_deref().map_or("unnamed", String::as_str), secret);
        let key = checked.map_err(|error| self.mistakes.add(line, path, error.to_string())).ok()?;
        name.is_some().then_some(key)
    }

    fn kms(&mut self, node: &Node, path: &str) -> Option<KmsProvider> {
        let fields = self.fields(node, path, &["apiVersion", "name", "cachesize", "endpoint", "timeout"])?;
        let version = self.optional(&fields, path, "apiVersion")?.filter(|version| !version.is_empty());
        let api_version = version.map_or_else(|| "v1".to_owned(), |version| version.to_string());
        let name = self.mandatory(&fields, node, path, "name", "provider")?.to_string();
        let endpoint = self.mandatory(&fields, node, path, "endpoint", "kms")?.to_string();
        let timeout = self.optional(&fields, path, "timeout")?.map(|timeout| timeout.to_string());
        let cachesize = self.cachesize(&fields, path)?;
        let provider = KmsProvider { api_version, name, endpoint, timeout, cachesize };
        for (field, what) in kms::mistakes(&provider, &self.kms_names) {
            let line = fields.get(field).map_or(node.line, |node| node.line);
            self.mistakes.add(line, format!("{path}.{field}"), what);
        }
        self.kms_names.push(provider.name.clone());
        Some(provider)
    }

    /// The outer none means a mistake, the inner one an absent field.
    #[allow(clippy::option_option)]
    fn cachesize(&mut self, fields: &Fields<'_>, path: &str) -> Option<Option<i32>> {
        let Some(node) = fields.get("cachesize") else { return Some(None) };
        let size = match node.value {
            Value::Number(Some(number)) => i32::try_from(number).ok(),
            _ => None,
        };
        if size.is_none() {
            self.mistakes.add(node.line, format!("{path}.cachesize"), "must be a 32-bit integer");
        }
        size.map(Some)
    }

    /// A text that must be there and not be empty.
    fn mandatory(&mut self, fields: &Fields<'_>, node: &Node, path: &str, name: &str, owner: &str) -> Option<Zeroizing<String>> {
        let text = match fields.get(name) {
            Some(node) => self.text(node, &format!("{path}.{name}"))?,
            None => Zeroizing::default(),
        };
        if text.is_empty() {
            self.mistakes.add(node.line, format!("{path}.{name}"), format!("{name} is a mandatory field for a {owner}"));
            return None;
        }
        Some(text)
    }

    /// The outer none means a mistake, the inner one an absent field.
    #[allow(clippy::option_option)]
    fn optional(&mut self, fields: &Fields<'_>, path: &str, name: &str) -> Option<Option<Zeroizing<String>>> {
        match fields.get(name) {
            Some(node) => self.text(node, &format!("{path}.{name}")).map(Some),
            None => Some(None),
        }
    }

    fn text(&mut self, node: &Node, path: &str) -> Option<Zeroizing<String>> {
        match &node.value {
            Value::Text(text) => Some(text.clone()),
            Value::Null => Some(Zeroizing::default()),
            other => {
                let hint = if matches!(other, Value::List(_) | Value::Map(_)) { "" } else { "; put it in quotes" };
                self.mistakes.add(node.line, path, format!("must be text, is {}{hint}", kind_of(other)));
                None
            }
        }
    }

    fn list<'n>(&mut self, node: Option<&'n Node>, path: &str) -> &'n [Node] {
        match node.map(|node| (node.line, &node.value)) {
            None => &[],
            Some((_, Value::List(items))) => items,
            Some((line, other)) => {
                self.mistakes.add(line, path, format!("must be a list, is {}", kind_of(other)));
                &[]
            }
        }
    }

    fn fields<'n>(&mut self, node: &'n Node, path: &str, known: &[&'static str]) -> Option<Fields<'n>> {
        let entries = match &node.value {
            Value::Map(entries) => &entries[..],
            Value::Null => &[],
            other => {
                self.mistakes.add(node.line, path, format!("must be a map of fields, is {}", kind_of(other)));
                return None;
            }
        };
        let mut fields = Fields(Vec::new());
        for (name, value) in with_merged(entries) {
            let Some(known) = known.iter().find(|known| **known == name) else {
                self.mistakes.add(value.line, path, format!("unknown field {}", shown(name)));
                continue;
            };
            if fields.0.iter().any(|(seen, _)| seen == known) {
                self.mistakes.add(value.line, path, format!("field {known} is given twice"));
            }
            fields.0.push((known, value));
        }
        Some(fields)
    }
}

/// Entries with those of merge keys (`<<: *anchor`) in their place. A merged
/// field that is also given is given twice: strict decoding knows no override.
fn with_merged(entries: &[(Zeroizing<String>, Node)]) -> Vec<(&str, &Node)> {
    let mut all = Vec::new();
    for (name, node) in entries {
        match &node.value {
            Value::Map(merged) if name.as_str() == "<<" => all.extend(with_merged(merged)),
            Value::List(items) if name.as_str() == "<<" => {
                for item in items {
                    match &item.value {
                        Value::Map(merged) => all.extend(with_merged(merged)),
                        _ => all.push(("<<", item)),
                    }
                }
            }
            _ => all.push((name.as_str(), node)),
        }
    }
    all
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool => "true or false",
        Value::Number(_) => "a number",
        Value::Text(_) => "text",
        Value::List(_) => "a list",
        Value::Map(_) => "a map",
    }
}

/// A field's name as far as it can be shown. A slip in the file can put key
/// material where a name should be, and base64 of the shortest key has 22 characters.
fn shown(name: &str) -> String {
    if name.len() <= 20 && name.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
        format!("{name:?}")
    } else {
        format!("of {} bytes, not shown", name.len())
    }
}

/// Standard base64 as Go reads it: line ends are ignored anywhere, padding is
/// asked for, unused bits may be set.
fn decode_secret(text: &str) -> Option<Secret<Vec<u8>>> {
    let compact: Zeroizing<Vec<u8>> = Zeroizing::new(text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect());
    let content = compact.strip_suffix(b"==").or(compact.strip_suffix(b"=")).unwrap_or(&compact);
    if content.contains(&b'=') || !compact.len().is_multiple_of(4) {
        return None;
    }
    let mut form = data_encoding::BASE64_NOPAD.specification();
    form.check_trailing_bits = false;
    form.encoding().ok()?.decode(content).ok().map(Secret::new)
}
