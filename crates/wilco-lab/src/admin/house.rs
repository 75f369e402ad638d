//! Who may ask. The lab listens on loopback, but a browser on this machine asks it on behalf of any site it shows: through a
//! form that is sent here, or through a name that suddenly means 127.0.0.1. Neither gets in.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use data_encoding::HEXLOWER;
use rand::{TryRng, rngs::SysRng};
use sha2::{Digest, Sha256};

use super::problem::Problem;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A token that nobody can guess; none where the system gives no randomness.
pub fn page_token() -> Option<String> {
    let mut bytes = [0u8; 32];
    SysRng.try_fill_bytes(&mut bytes).ok()?;
    Some(HEXLOWER.encode(&bytes))
}

/// Whether two tokens are the same; how long it takes says nothing about where they differ.
pub fn same_token(one: &str, other: &str) -> bool {
    Sha256::digest(one.as_bytes()) == Sha256::digest(other.as_bytes())
}

/// Lets through what was asked for on this machine, by its own name, and not by another site.
pub async fn only_from_here(request: Request, next: Next) -> Response {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    // HTTP/2 has no Host; what stands for it is a part of the address.
    let authority = request
        .uri()
        .authority()
        .map_or("", |authority| authority.as_str());
    match check(request.headers(), authority, changes) {
        Ok(()) => next.run(request).await,
        Err(why) => Problem::new(StatusCode::FORBIDDEN, why).into_response(),
    }
}

fn check(headers: &HeaderMap, authority: &str, changes: bool) -> Result<(), &'static str> {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let host = text(&header::HOST).unwrap_or(authority);
    if !is_here(host) {
        return Err("the lab answers to 127.0.0.1, [::1] and localhost only");
    }
    if !changes {
        return Ok(());
    }
    let own = |origin: &str| {
        origin
            .strip_prefix("http://")
            .is_some_and(|site| site.eq_ignore_ascii_case(host))
    };
    if text(&header::ORIGIN).is_some_and(|origin| !own(origin)) {
        return Err("another site asked for this");
    }
    // Browsers say so themselves; other clients say nothing.
    match text(&SEC_FETCH_SITE) {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) => Err("another site asked for this"),
    }
}

fn is_here(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&'static str, &'static str)], changes: bool) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name = HeaderName::from_static(name);
            headers.insert(name, axum::http::HeaderValue::from_static(value));
        }
        check(&headers, "", changes).is_ok()
    }

    #[test]
    fn only_names_of_this_machine_are_answered_to() {
        for host in [
            "127.0.0.1:8471",
            "127.0.0.1",
            "localhost:80",
            "LOCALHOST",
            "[::1]:8471",
            "127.9.9.9:1",
        ] {
            assert!(asked(&[("host", host)], false), "{host}");
        }
        for host in [
            "",
            "evil.example:8471",
            "127.0.0.1.evil.example",
            "10.0.0.1:8471",
            "[::2]:1",
            "[",
            "localhost.x",
        ] {
            assert!(!asked(&[("host", host)], false), "{host}");
        }
    }

    #[test]
    fn a_host_goes_before_what_stands_for_it() {
        let mut headers = HeaderMap::new();
        assert!(check(&headers, "127.0.0.1:8471", true).is_ok());
        assert!(check(&headers, "evil.example", false).is_err());
        headers.insert(header::HOST, axum::http::HeaderValue::from_static("evil.example"));
        assert!(check(&headers, "127.0.0.1:8471", false).is_err());
    }

    #[test]
    fn another_site_may_not_change_anything() {
        let host = ("host", "127.0.0.1:8471");
        assert!(asked(&[host], true));
        assert!(asked(&[host, ("origin", "http://127.0.0.1:8471")], true));
        assert!(asked(&[host, ("sec-fetch-site", "same-origin")], true));
        for bad in [
            ("origin", "http://evil.example"),
            ("origin", "http://127.0.0.1:9999"),
            ("origin", "https://127.0.0.1:8471"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(!asked(&[host, bad], true), "{bad:?}");
        }
    }
}
