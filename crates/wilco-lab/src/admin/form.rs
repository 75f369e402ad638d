//! The fields of a form (`application/x-www-form-urlencoded`). Pure.

use axum::http::StatusCode;

use super::problem::Problem;

/// How many fields a form may have.
const FIELDS_MAX: usize = 16;

/// A form, read.
#[derive(Debug)]
pub struct Form(Vec<(String, String)>);

impl Form {
    /// Reads a body.
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let bad = || Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "the form cannot be read");
        let text = std::str::from_utf8(body).map_err(|_| bad())?;
        let mut fields = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            fields.push((decode(name).ok_or_else(bad)?, decode(value).ok_or_else(bad)?));
            if fields.len() > FIELDS_MAX {
                return Err(bad());
            }
        }
        Ok(Self(fields))
    }

    /// A field without spaces around it; empty where it is missing.
    pub fn text(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.trim())
    }
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_browsers_write_them() {
        let form =
            Form::read(b"fault=mail%3Aslow&times=+2+&none=&odd&name=J%C3%BCrg+%26+Co").expect("a form");
        assert_eq!(form.text("fault"), "mail:slow");
        assert_eq!(form.text("times"), "2");
        assert_eq!(form.text("name"), "J\u{fc}rg & Co");
        assert_eq!((form.text("odd"), form.text("missing")), ("", ""));
        for bad in [
            &b"a=%4"[..],
            b"a=%zz",
            b"a=%+1",
            b"\xff",
            b"a=%ff",
            b"a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q",
        ] {
            assert!(Form::read(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
