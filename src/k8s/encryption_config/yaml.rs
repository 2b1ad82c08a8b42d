//! YAML as a tree with lines, doubled fields and merge keys kept, so that every mistake of a
//! file can be shown at once.
//!
//! Bounds: a megabyte of text, and a budget of nodes, depth and aliases far
//! above any real configuration. What the parser says of broken YAML may quote
//! the file, so only the place is passed on.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy};
use serde_saphyr::{Options, Spanned};
use zeroize::Zeroizing;

use super::mistakes::ConfigMistake;

/// The largest file: real ones have a few kilobytes.
const MAX_BYTES: usize = 1 << 20;
/// The deepest nesting: a key lies seven levels down.
const MAX_DEPTH: usize = 32;
/// Real files have a few hundred nodes.
const MAX_NODES: usize = 50_000;
/// Anchors are rare in these files; many aliases are a bomb.
const MAX_ALIASES: usize = 1_000;

/// A YAML node. Texts may be key material and are wiped on drop.
pub(super) struct Node {
    /// Counted from 1.
    pub line: u64,
    pub value: Value,
}

pub(super) enum Value {
    Null,
    Bool,
    /// None when it is no 64-bit integer.
    Number(Option<i64>),
    Text(Zeroizing<String>),
    List(Vec<Node>),
    /// In the file's order, doubled fields included.
    Map(Vec<(Zeroizing<String>, Node)>),
}

/// Reads the first document, which is all that the API server looks at.
pub(super) fn read(yaml: &[u8]) -> Result<Node, ConfigMistake> {
    if yaml.is_empty() {
        return Err(ConfigMistake::whole_file("the file is empty"));
    }
    if yaml.len() > MAX_BYTES {
        return Err(ConfigMistake::whole_file(format!("the file has {} bytes, allowed are {MAX_BYTES}", yaml.len())));
    }
    if std::str::from_utf8(yaml).is_err() {
        return Err(ConfigMistake::whole_file("the file is not UTF-8"));
    }
    let mut reader = yaml;
    let first = serde_saphyr::read_with_options::<_, Node>(&mut reader, options()).next();
    match first {
        Some(Ok(node)) => Ok(node),
        Some(Err(error)) => Err(ConfigMistake {
            path: String::new(),
            line: error.location().map_or(0, |location| location.line()),
            what: "not YAML that can be read, or nested, repeated or aliased beyond all bounds".to_owned(),
        }),
        None => Ok(Node { line: 0, value: Value::Null }),
    }
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: Some(MAX_BYTES),
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_recorded_anchor_events: MAX_NODES,
            max_recorded_anchor_bytes: MAX_BYTES,
            max_total_scalar_bytes: MAX_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_NODES,
            max_replay_stack_depth: MAX_DEPTH,
        },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::AsOrdinary,
        emit_comments: false,
        with_snippet: false,
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { line: spanned.referenced.line(), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Bool)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(Some(number)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(i64::try_from(number).ok()))
    }

    fn visit_i128<E>(self, _: i128) -> Result<Value, E> {
        Ok(Value::Number(None))
    }

    fn visit_u128<E>(self, _: u128) -> Result<Value, E> {
        Ok(Value::Number(None))
    }

    /// The API server passes `1e3` on as `1000`.
    #[allow(clippy::cast_possible_truncation)] // checked to be whole and small
    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        let is_exact = number.fract() == 0.0 && number.abs() < f64::from(u32::MAX);
        Ok(Value::Number(is_exact.then_some(number as i64)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(Zeroizing::new(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(Zeroizing::new(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Node>()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(FieldName(name)) = entries.next_key()? {
            map.push((name, entries.next_value::<Node>()?));
        }
        Ok(Value::Map(map))
    }
}

/// A field's name; the API server turns numbers and booleans into text there.
struct FieldName(Zeroizing<String>);

impl<'de> Deserialize<'de> for FieldName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Text(name) => Ok(Self(name)),
            // No field of this format has such a name, so which it is does not matter.
            Value::Bool => Ok(Self(Zeroizing::new("true or false".to_owned()))),
            Value::Number(_) => Ok(Self(Zeroizing::new("a number".to_owned()))),
            Value::Null => Ok(Self(Zeroizing::new("null".to_owned()))),
            Value::List(_) | Value::Map(_) => Err(D::Error::custom("a list or a map cannot name a field")),
        }
    }
}
