//! JSON read strictly: no key twice, no unknown key, every value checked; errors name the key with its path.
//! An unknown key comes with the known ones that resemble it.

use std::cell::RefCell;
use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Path of the key, such as `gpus[1].overrides.xccs`.
    pub key: String,
    pub reason: String,
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// An error at a key.
pub(crate) fn fault<T>(key: impl Into<String>, reason: impl Into<String>) -> Result<T> {
    Err(Fault {
        key: key.into(),
        reason: reason.into(),
    })
}

/// Parses a text that is one JSON value and nothing else.
pub(crate) fn parse(text: &str) -> Result<Value> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value: Unique = match serde_path_to_error::deserialize(&mut reader) {
        Ok(value) => value,
        Err(error) => {
            let key = error.path().to_string();
            return fault(
                if key == "." {
                    "top level".to_owned()
                } else {
                    key
                },
                error.inner().to_string(),
            );
        }
    };
    if let Err(error) = reader.end() {
        return fault("after the configuration", error.to_string());
    }
    Ok(value.0)
}

/// A value in which no object has a key twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Unique)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Unique(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!(
                    "the key `{key}` is there twice"
                )));
            }
            let Unique(value) = map.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// An object being read: each key is asked for once, and at the end none may be left.
pub(crate) struct Section<'a> {
    path: String,
    map: &'a Map<String, Value>,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    /// The object at a path; the empty path is the top level.
    pub fn new(value: &'a Value, path: impl Into<String>) -> Result<Self> {
        let path = path.into();
        match value {
            Value::Object(map) => Ok(Section {
                path,
                map,
                known: RefCell::default(),
            }),
            other => fault(
                named(&path),
                format!("{} where an object belongs", kind(other)),
            ),
        }
    }

    /// The path of a key in it.
    pub fn path(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// Any value.
    pub fn value(&self, key: &'static str) -> Option<&'a Value> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
        self.map.get(key)
    }

    /// A whole number in a range.
    pub fn number(&self, key: &'static str, range: RangeInclusive<u64>) -> Result<Option<u64>> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        number(value, &self.path(key), range).map(Some)
    }

    /// A whole number in a range of 32 bits.
    pub fn small(&self, key: &'static str, range: RangeInclusive<u32>) -> Result<Option<u32>> {
        let range = u64::from(*range.start())..=u64::from(*range.end());
        // The range is one of 32 bits.
        Ok(self.number(key, range)?.map(|value| value as u32))
    }

    /// A whole number in a range that may have negative ones.
    pub fn signed(&self, key: &'static str, range: RangeInclusive<i64>) -> Result<Option<i64>> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        match value.as_i64() {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            Some(number) => fault(
                self.path(key),
                out_of_range(number, range.start(), range.end()),
            ),
            None => fault(self.path(key), wrong(value, "a whole number")),
        }
    }

    /// A text.
    pub fn text(&self, key: &'static str) -> Result<Option<&'a str>> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        match value {
            Value::String(text) => Ok(Some(text)),
            other => fault(self.path(key), wrong(other, "a text")),
        }
    }

    /// A text that is one of several.
    pub fn one_of(&self, key: &'static str, known: &[&'static str]) -> Result<Option<&'a str>> {
        match self.text(key)? {
            Some(text) if !known.contains(&text) => fault(
                self.path(key),
                format!(
                    "`{text}` is none of {}{}",
                    known.join(", "),
                    similar(text, known)
                ),
            ),
            text => Ok(text),
        }
    }

    /// `true` or `false`.
    pub fn flag(&self, key: &'static str) -> Result<Option<bool>> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        match value {
            Value::Bool(flag) => Ok(Some(*flag)),
            other => fault(self.path(key), wrong(other, "true or false")),
        }
    }

    /// An object.
    pub fn section(&self, key: &'static str) -> Result<Option<Section<'a>>> {
        self.value(key)
            .map(|value| Section::new(value, self.path(key)))
            .transpose()
    }

    /// The values of a list, each with its path.
    pub fn list(&self, key: &'static str) -> Result<Option<Vec<(String, &'a Value)>>> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let path = self.path(key);
        match value {
            Value::Array(values) => Ok(Some(
                values
                    .iter()
                    .enumerate()
                    .map(|(index, value)| (format!("{path}[{index}]"), value))
                    .collect(),
            )),
            other => fault(path, wrong(other, "a list")),
        }
    }

    /// The objects of a list.
    pub fn sections(&self, key: &'static str) -> Result<Option<Vec<Section<'a>>>> {
        self.list(key)?
            .map(|values| {
                values
                    .into_iter()
                    .map(|(path, value)| Section::new(value, path))
                    .collect()
            })
            .transpose()
    }

    /// Keys that nothing is known of, with any value.
    pub fn others(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let known = self.known.borrow().clone();
        self.map
            .iter()
            .filter(move |(key, _)| !known.contains(&key.as_str()))
            .map(|(key, value)| (key.as_str(), value))
    }

    /// Ends the reading: a key that was not asked for is an error.
    pub fn finish(&self) -> Result<()> {
        let Some((key, _)) = self.others().next() else {
            return Ok(());
        };
        let known = self.known.borrow();
        let near = similar(key, &known);
        let all = if near.is_empty() {
            format!("; the keys here are {}", known.join(", "))
        } else {
            near
        };
        fault(self.path(key), format!("unknown key{all}"))
    }
}

/// A whole number in a range.
pub(crate) fn number(value: &Value, path: &str, range: RangeInclusive<u64>) -> Result<u64> {
    match value.as_u64() {
        Some(number) if range.contains(&number) => Ok(number),
        Some(number) => fault(path, out_of_range(number, range.start(), range.end())),
        None => fault(path, wrong(value, "a whole number, not negative")),
    }
}

fn out_of_range(
    number: impl fmt::Display,
    low: impl fmt::Display,
    high: impl fmt::Display,
) -> String {
    format!("{number} is out of range: {low} to {high}")
}

fn wrong(value: &Value, what: &str) -> String {
    format!("{} where {what} belongs", kind(value))
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => {
            let short: String = text.chars().take(40).collect();
            format!("the text `{short}`")
        }
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn named(path: &str) -> String {
    if path.is_empty() {
        "top level".to_owned()
    } else {
        path.to_owned()
    }
}

/// `; did you mean ...?` with the known words that resemble a word; empty if none does.
pub(crate) fn similar(word: &str, known: &[&'static str]) -> String {
    let word = word.to_ascii_lowercase();
    let mut near: Vec<(usize, &str)> = known
        .iter()
        .filter_map(|&other| {
            let distance = distance(&word, other);
            let close = distance <= (other.len() / 3).max(1)
                || (word.len() >= 3 && (other.contains(&word) || word.contains(other)));
            close.then_some((distance, other))
        })
        .collect();
    near.sort();
    near.truncate(3);
    // A slip of a letter or two needs no further guesses.
    if let Some(&(best @ ..=2, _)) = near.first() {
        near.retain(|&(distance, _)| distance == best);
    }
    if near.is_empty() {
        return String::new();
    }
    let names: Vec<String> = near.iter().map(|(_, name)| format!("`{name}`")).collect();
    format!("; did you mean {}?", names.join(" or "))
}

/// Edits from one word to another, of words that are not too long.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let next = (diagonal + usize::from(x != y))
                .min(row[j] + 1)
                .min(row[j + 1] + 1);
            diagonal = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_twice_and_trailing_text_are_errors() {
        let twice = parse(r#"{"a": {"b": 1, "b": 2}}"#).unwrap_err();
        assert_eq!(twice.key, "a");
        assert!(
            twice.reason.contains("`b` is there twice"),
            "{}",
            twice.reason
        );
        assert_eq!(parse("{} x").unwrap_err().key, "after the configuration");
        assert_eq!(parse("").unwrap_err().key, "top level");
        assert!(parse(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn sections_check_what_they_hand_out() {
        let value = parse(r#"{"n": 7, "t": "x", "s": {"kex": 1}, "big": 18446744073709551615}"#);
        let value = value.unwrap();
        let top = Section::new(&value, "").unwrap();
        assert_eq!(top.number("n", 0..=7), Ok(Some(7)));
        let range = top.number("n", 8..=9).unwrap_err();
        assert_eq!(
            (range.key.as_str(), range.reason.as_str()),
            ("n", "7 is out of range: 8 to 9")
        );
        assert_eq!(top.small("big", 0..=u32::MAX).unwrap_err().key, "big");
        assert_eq!(top.number("absent", 0..=1), Ok(None));
        let wrong = top.number("t", 0..=1).unwrap_err();
        assert_eq!(
            wrong.reason,
            "the text `x` where a whole number, not negative belongs"
        );
        let inner = top.section("s").unwrap().unwrap();
        assert_eq!(inner.value("key"), None);
        let unknown = inner.finish().unwrap_err();
        assert_eq!(unknown.key, "s.kex");
        assert_eq!(unknown.reason, "unknown key; did you mean `key`?");
        assert!(top.finish().is_ok());
    }
    #[test]
    fn a_key_that_is_read_twice_is_listed_once() {
        let value = parse(r#"{"gpu": 1, "xyzzyx": 2}"#).unwrap();
        let top = Section::new(&value, "").unwrap();
        for key in ["gpu", "count", "gpu"] {
            top.value(key);
        }
        let unknown = top.finish().unwrap_err();
        assert_eq!(unknown.reason, "unknown key; the keys here are gpu, count");
    }
}
