//! Writing JSON text exactly: escapes as few as JSON demands, everything else as it is, in UTF-8.
//!
//! The fingerprint is taken over such a text, so it is written here and not left to a library's taste.

use crate::VERSION;
use crate::message::Message;
use crate::value::Value;

/// The JSON form of a message on one line, header fields first, with a space after `:` and `,`.
pub(crate) fn message(m: &Message<'_>) -> String {
    let mut out = String::with_capacity(512);
    let nullable = |out: &mut String, name: &str, value: Option<&str>| {
        out.push_str(", \"");
        out.push_str(name);
        out.push_str("\": ");
        match value {
            Some(value) => text(out, value),
            None => out.push_str("null"),
        }
    };
    let some = |s| if str::is_empty(s) { None } else { Some(s) };
    out.push_str("{\"v\": ");
    text(&mut out, VERSION);
    nullable(&mut out, "type", Some(m.kind.as_str()));
    nullable(&mut out, "id", Some(m.id));
    nullable(&mut out, "re", m.re);
    nullable(&mut out, "from", some(m.from));
    nullable(&mut out, "to", some(m.to));
    nullable(&mut out, "item", m.item);
    out.push_str(", \"slots\": {");
    for (n, (key, slot)) in m.slots.iter().enumerate() {
        if n > 0 {
            out.push_str(", ");
        }
        text(&mut out, key);
        out.push_str(": ");
        value(&mut out, slot, ", ");
    }
    out.push('}');
    nullable(&mut out, "tail", m.tail);
    out.push('}');
    out
}

pub(crate) fn text_or_null(out: &mut String, s: &str) {
    if s.is_empty() {
        out.push_str("null")
    } else {
        text(out, s)
    }
}

pub(crate) fn value(out: &mut String, value: &Value<'_>, comma: &str) {
    match value {
        Value::Text(s) => text(out, s),
        Value::Int(n) => out.push_str(&n.to_string()),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::List(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push_str(comma);
                }
                self::value(out, item, comma);
            }
            out.push(']');
        }
    }
}

pub(crate) fn text(out: &mut String, s: &str) {
    out.push('"');
    // nearly always; without a way out in the middle, so that many bytes are looked at at once
    let plain = |b: u8| (b >= 0x20) & (b != b'"') & (b != b'\\');
    if s.bytes().fold(true, |all, b| all & plain(b)) {
        out.push_str(s);
        out.push('"');
        return;
    }
    let mut from = 0;
    for (at, b) in s.bytes().enumerate() {
        let short = match b {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0c => "\\f",
            0..0x20 => "",
            _ => continue,
        };
        // every byte matched above is ASCII, so both cuts are character boundaries
        out.push_str(&s[from..at]);
        if short.is_empty() {
            out.push_str(&format!("\\u{b:04x}"));
        } else {
            out.push_str(short);
        }
        from = at + 1;
    }
    out.push_str(&s[from..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    #[test]
    fn texts_are_escaped_as_little_as_json_allows() {
        let mut out = String::new();
        super::text(&mut out, "a\"b\\c\n\u{1}\u{7f}é\u{2028}/𝄞");
        assert_eq!(out, "\"a\\\"b\\\\c\\n\\u0001\u{7f}é\u{2028}/𝄞\"");
    }
}
