//! The message signature `x-jws-signature`: a detached JWS (RFC 7515, appendix F) over the exact bytes of the body, PS256,
//! with three claims of Open Banking's own that must be understood (OBIE R/W 3.1 and 4.0, message signing). Pure.

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value};

use super::FieldError;

/// The header it travels in.
pub const HEADER: &str = "x-jws-signature";

const IAT: &str = "http://openbanking.org.uk/iat";
const ISS: &str = "http://openbanking.org.uk/iss";
const TAN: &str = "http://openbanking.org.uk/tan";
/// The longest signature header read, in bytes; one of RSA with 4096 bits has about 1,100.
const HEADER_MAX: usize = 8 * 1024;

/// Whose signatures the bank takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signing {
    /// The signer's RSA public key, PEM (`BEGIN PUBLIC KEY`), of 2048 bits or more.
    pub public_key: String,
    /// Its `kid`.
    pub key_id: String,
    /// The `iss` that the signer must claim.
    pub issuer: String,
    /// The `tan`, the domain of the trust anchor.
    pub trust_anchor: String,
}

/// Checks RSA-PSS signatures with one key.
pub trait Verify: Send + Sync + std::fmt::Debug {
    /// Whether `signature` is this key's over `message`.
    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool;
}

/// A signer the bank knows.
#[derive(Debug)]
pub struct Known {
    /// Who it is.
    pub signing: Signing,
    /// Its key.
    pub key: Box<dyn Verify>,
}

/// Checks the signature of one request. `now_s` is the bank's instant in seconds since 1970.
///
/// # Errors
/// The standard's error for the first thing that is wrong.
pub fn check(
    header: Option<&[u8]>,
    body: &[u8],
    signing: &Signing,
    key: &dyn Verify,
    now_s: i64,
) -> Result<(), FieldError> {
    let fail = |code, path: &str, message: &str| Err(FieldError::new(code, path, message));
    let Some(header) = header else {
        let message = "this bank takes signed messages only";
        return fail("UK.OBIE.Signature.Missing", HEADER, message);
    };
    let Some((protected, claims, signature)) = parts(header) else {
        let message = "must be a detached JWS: a JSON header, two points and a signature, both in base64url";
        return fail("UK.OBIE.Signature.Malformed", HEADER, message);
    };
    for claim in ["alg", "kid", "crit", IAT, ISS, TAN] {
        if !claims.contains_key(claim) {
            return fail("UK.OBIE.Signature.MissingClaim", claim, "is required");
        }
    }
    if let Some((claim, rule)) = wrong_claim(&claims, signing, now_s) {
        return fail("UK.OBIE.Signature.InvalidClaim", claim, rule);
    }
    let mut message = protected.as_bytes().to_vec();
    message.push(b'.');
    message.extend_from_slice(BASE64URL_NOPAD.encode(body).as_bytes());
    if key.verifies(&message, &signature) {
        Ok(())
    } else {
        let message = "is not this key's signature over these bytes";
        fail("UK.OBIE.Signature.Invalid", HEADER, message)
    }
}

/// The protected header as it was sent, the same read, and the signature.
fn parts(header: &[u8]) -> Option<(&str, Map<String, Value>, Vec<u8>)> {
    let text = std::str::from_utf8(header)
        .ok()
        .filter(|t| t.len() <= HEADER_MAX)?;
    let (protected, signature) = text.split_once("..")?;
    let claims = BASE64URL_NOPAD.decode(protected.as_bytes()).ok()?;
    let Ok(Value::Object(claims)) = serde_json::from_slice(&claims) else {
        return None;
    };
    let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).ok()?;
    (!signature.is_empty()).then_some((protected, claims, signature))
}

fn wrong_claim<'a>(
    claims: &'a Map<String, Value>,
    signing: &Signing,
    now_s: i64,
) -> Option<(&'a str, &'static str)> {
    claims.iter().find_map(|(claim, value)| {
        let text = value.as_str();
        let (good, rule) = match claim.as_str() {
            "alg" => (text == Some("PS256"), "must be PS256"),
            "typ" => (text == Some("JOSE"), "must be JOSE, or left out"),
            "cty" => (
                matches!(text, Some("json" | "application/json")),
                "must be json or application/json, or left out",
            ),
            "kid" => (text == Some(&signing.key_id), "is no key this bank knows"),
            IAT => (
                value.as_i64().is_some_and(|at| at <= now_s),
                "must be a number of seconds since 1970, in the past",
            ),
            ISS => (text == Some(&signing.issuer), "is not the expected issuer"),
            TAN => (
                text == Some(&signing.trust_anchor),
                "is no trust anchor this bank trusts",
            ),
            "crit" => (
                names_all(value),
                "must name the three claims of Open Banking and no other",
            ),
            _ => (false, "is no claim of this signature"),
        };
        (!good).then_some((claim.as_str(), rule))
    })
}

fn names_all(crit: &Value) -> bool {
    let mut named: Vec<&str> = crit
        .as_array()
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    named.sort_unstable();
    named == [IAT, ISS, TAN]
}

/// An RSA key that checks by ring.
#[cfg(feature = "jws")]
#[derive(Debug)]
pub struct RingKey(ring::signature::UnparsedPublicKey<Vec<u8>>);

#[cfg(feature = "jws")]
impl RingKey {
    /// Reads a PEM text with a `SubjectPublicKeyInfo` (RFC 5280 §4.1.2.7); `None` if it holds no RSA key.
    pub fn from_pem(pem: &str) -> Option<Self> {
        let body = pem.split_once("-----BEGIN PUBLIC KEY-----")?.1;
        let body = body.split_once("-----END PUBLIC KEY-----")?.0;
        let packed: String = body.split_ascii_whitespace().collect();
        let spki = data_encoding::BASE64.decode(packed.as_bytes()).ok()?;
        let key = rsa_key(&spki)?.to_vec();
        let parameters = &ring::signature::RSA_PSS_2048_8192_SHA256;
        Some(Self(ring::signature::UnparsedPublicKey::new(parameters, key)))
    }
}

#[cfg(feature = "jws")]
impl Verify for RingKey {
    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.0.verify(message, signature).is_ok()
    }
}

/// The `RSAPublicKey` inside a `SubjectPublicKeyInfo`: SEQUENCE { SEQUENCE { rsaEncryption, NULL }, BIT STRING }.
#[cfg(feature = "jws")]
fn rsa_key(spki: &[u8]) -> Option<&[u8]> {
    const ALGORITHM: [u8; 13] = [
        0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
    ];
    let (outer, rest) = element(spki, 0x30)?;
    let (algorithm, after) = element(outer, 0x30)?;
    let (bits, end) = element(after, 0x03)?;
    (rest.is_empty() && end.is_empty() && algorithm == ALGORITHM).then_some(())?;
    // The first byte counts unused bits; a key has none.
    bits.strip_prefix(&[0])
}

/// The content of the DER element with this tag at the start of `der`, and what follows it.
#[cfg(feature = "jws")]
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 | 0x82 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x0f))?;
            (
                bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
                rest,
            )
        }
        _ => return None,
    };
    (found == tag).then(|| rest.split_at_checked(length)).flatten()
}

#[cfg(all(test, feature = "jws"))]
mod tests {
    use super::*;
    use serde_json::json;

    /// Keys and a signature made by OpenSSL: somebody else's idea of PS256.
    const PUBLIC: &str = include_str!("../../tests/jws/public.pem");
    const SIGNED: &str = include_str!("../../tests/jws/signed_by_openssl.txt");
    const BODY: &[u8] = include_bytes!("../../tests/jws/body.json");

    fn signing() -> Signing {
        Signing {
            public_key: PUBLIC.to_owned(),
            key_id: "test-key-1".to_owned(),
            issuer: "0015800001041RHAAY/HQuZPIt3ipkh33Uxytox1E".to_owned(),
            trust_anchor: "openbanking.org.uk".to_owned(),
        }
    }

    fn said(header: Option<&str>, body: &[u8], now_s: i64) -> Result<(), (&'static str, String)> {
        let key = RingKey::from_pem(PUBLIC).unwrap_or_else(|| panic!("a key"));
        check(header.map(str::as_bytes), body, &signing(), &key, now_s).map_err(|e| (e.code, e.path))
    }

    fn good() -> Value {
        json!({
            "alg": "PS256", "kid": "test-key-1", IAT: 1_790_000_000, ISS: signing().issuer, TAN: "openbanking.org.uk",
            "crit": [IAT, ISS, TAN],
        })
    }

    #[test]
    fn a_signature_of_openssl_is_taken_and_any_other_byte_is_not() {
        let signed = SIGNED.trim();
        assert_eq!(said(Some(signed), BODY, 1_800_000_000), Ok(()));
        let mut other = BODY.to_vec();
        other.push(b' ');
        let invalid = Err(("UK.OBIE.Signature.Invalid", HEADER.to_owned()));
        assert_eq!(said(Some(signed), &other, 1_800_000_000), invalid);
        let (head, tail) = signed.split_once("..").unwrap_or_default();
        let swapped = format!("{}{}", if tail.starts_with('A') { 'B' } else { 'A' }, &tail[1..]);
        assert_eq!(
            said(Some(&format!("{head}..{swapped}")), BODY, 1_800_000_000),
            invalid
        );
    }

    #[test]
    fn what_is_no_signature_is_told_by_the_standards_code() {
        let malformed = Err(("UK.OBIE.Signature.Malformed", HEADER.to_owned()));
        assert_eq!(
            said(None, BODY, 0),
            Err(("UK.OBIE.Signature.Missing", HEADER.to_owned()))
        );
        for bad in ["", "abc", "a.b.c", "e30..", "e30=..AAAA", "W10..AAAA", "e30..+++"] {
            assert_eq!(said(Some(bad), BODY, 0), malformed, "{bad}");
        }
    }

    #[test]
    fn each_claim_must_be_there_and_right() {
        let sent = |claims: &Value| {
            let header = BASE64URL_NOPAD.encode(claims.to_string().as_bytes());
            said(Some(&format!("{header}..AAAA")), BODY, 1_790_000_000)
                .err()
                .unwrap_or_default()
        };
        assert_eq!(
            sent(&good()).0,
            "UK.OBIE.Signature.Invalid",
            "the claims are all right"
        );
        for claim in ["alg", "kid", "crit", IAT, ISS, TAN] {
            let mut claims = good();
            claims.as_object_mut().and_then(|c| c.remove(claim));
            assert_eq!(
                sent(&claims),
                ("UK.OBIE.Signature.MissingClaim", claim.to_owned())
            );
        }
        for (claim, wrong) in [
            ("alg", json!("RS256")),
            ("alg", json!("none")),
            ("typ", json!("JWT")),
            ("cty", json!("text/plain")),
            ("kid", json!("another-key")),
            (IAT, json!(1_790_000_001)),
            (IAT, json!("1790000000")),
            (ISS, json!("somebody")),
            (TAN, json!("example.com")),
            ("crit", json!([IAT, ISS])),
            ("crit", json!([IAT, ISS, TAN, "b64"])),
            ("b64", json!(false)),
        ] {
            let mut claims = good();
            claims[claim] = wrong.clone();
            assert_eq!(
                sent(&claims),
                ("UK.OBIE.Signature.InvalidClaim", claim.to_owned()),
                "{wrong}"
            );
        }
    }

    #[test]
    fn only_an_rsa_public_key_is_one() {
        for bad in ["", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"] {
            assert!(RingKey::from_pem(bad).is_none());
        }
    }
}
