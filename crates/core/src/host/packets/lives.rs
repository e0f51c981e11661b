//! The reports of decoders that followed each other, as one: the earlier ones died.

use serde_json::{Map, Number, Value};

/// What tells the items of a list apart, if they are objects.
const IDENTITIES: [&str; 3] = ["path", "name", "state"];

/// Counts are added; a span begins with the first and ends with the last.
pub fn together(before: Value, after: Value) -> Value {
    both("", before, after)
}

fn both(key: &str, before: Value, after: Value) -> Value {
    match (before, after) {
        (Value::Null, one) | (one, Value::Null) => one,
        (Value::Number(one), Value::Number(other)) => Value::Number(number(key, &one, &other)),
        (Value::Bool(one), Value::Bool(other)) => Value::Bool(one && other),
        (Value::Object(one), Value::Object(other)) => Value::Object(object(one, other)),
        (Value::Array(one), Value::Array(other)) => Value::Array(list(one, other)),
        (_, last) => last,
    }
}

fn number(key: &str, one: &Number, other: &Number) -> Number {
    let (Some(a), Some(b)) = (whole(one), whole(other)) else {
        return other.clone();
    };
    let found = match key {
        "begin" | "unfinished_since" => a.min(b),
        "end" | "visits_max" | "established_max" | "link" | "snaplen" => a.max(b),
        _ => a.saturating_add(b),
    };
    i64::try_from(found).map_or_else(|_| Number::from(u64::MAX), Number::from)
}

fn whole(number: &Number) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    signed.or_else(|| number.as_u64().map(i128::from))
}

fn object(mut one: Map<String, Value>, other: Map<String, Value>) -> Map<String, Value> {
    for (key, value) in other {
        let before = one.remove(&key).unwrap_or(Value::Null);
        let found = both(&key, before, value);
        one.insert(key, found);
    }
    one
}

fn list(mut one: Vec<Value>, other: Vec<Value>) -> Vec<Value> {
    for item in other {
        match one.iter_mut().find(|known| same(known, &item)) {
            Some(known) => *known = joined(known.take(), item),
            None => one.push(item),
        }
    }
    one
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let known = IDENTITIES.iter().find(|name| a.contains_key(**name));
            known.is_some_and(|name| a.get(*name) == b.get(*name))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.first().is_some_and(|first| b.first() == Some(first))
        }
        _ => one == other,
    }
}

/// Two items of a list that are the same thing: a pair of a name and its count has its counts added.
fn joined(before: Value, after: Value) -> Value {
    match (before, after) {
        (Value::Array(one), Value::Array(other)) => Value::Array(
            one.into_iter()
                .zip(other)
                .map(|(a, b)| both("", a, b))
                .collect(),
        ),
        (one @ Value::Object(_), other) => both("", one, other),
        (_, last) => last,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_added_and_spans_joined() {
        let before = json!({
            "begin": 5, "end": 9, "notes": ["a note"],
            "servers": [{"name": "web", "visits": 3, "visits_max": 7, "unreadable": {"tls": 1}, "protocol": null}],
            "apart": [{"state": "unanswered", "attempts": 4, "exact": true, "to": [["db", 4]]}],
        });
        let after = json!({
            "begin": 10, "end": 12, "notes": ["a note", "another"],
            "servers": [{"name": "web", "visits": 2, "visits_max": 6, "unreadable": {"tls": 2}, "protocol": "http"},
                        {"name": "db", "visits": 1}],
            "apart": [{"state": "unanswered", "attempts": 1, "exact": false, "to": [["db", 1], ["web", 1]]}],
        });
        let found = together(before, after);
        assert_eq!(
            found,
            json!({
                "begin": 5, "end": 12, "notes": ["a note", "another"],
                "servers": [{"name": "web", "visits": 5, "visits_max": 7, "unreadable": {"tls": 3}, "protocol": "http"},
                            {"name": "db", "visits": 1}],
                "apart": [{"state": "unanswered", "attempts": 5, "exact": false, "to": [["db", 5], ["web", 1]]}],
            })
        );
    }

    #[test]
    fn no_number_is_too_large() {
        let found = together(json!({"bytes": u64::MAX}), json!({"bytes": 1}));
        assert_eq!(found, json!({"bytes": u64::MAX}));
    }
}
