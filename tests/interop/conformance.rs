//! Every case of the package's own conformance file, through the JSON endpoints of a daemon with the package's profiles.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wilco_tests::Caller;

use crate::oracle::Oracle;
use crate::ours::{self, post};

#[tokio::test]
async fn the_packages_own_conformance_file_passes() {
    let oracle = Oracle::start();
    let daemon = ours::daemon(&oracle.profiles()).await;
    let client = ours::client(&daemon);
    let text = std::fs::read_to_string(oracle.conformance()).expect("the package's conformance file");
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let case: Value = serde_json::from_str(line).expect("a case is JSON");
        let kind = case["kind"].as_str().expect("a kind").to_owned();
        if let Err(why) = run(&client, &kind, &case).await {
            wrong.push(format!("{}: {why}\n  {case}", case["id"]));
        }
        *seen.entry(kind).or_default() += 1;
    }
    println!("cases: {seen:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for kind in ["parse", "readback", "presend", "done", "thread", "digest"] {
        assert!(seen.contains_key(kind), "no {kind} case was found: {seen:?}");
    }
    assert!(seen.values().sum::<u32>() > 100, "{seen:?}");
}

async fn run(client: &Caller, kind: &str, case: &Value) -> Result<(), String> {
    match kind {
        "parse" => parse(client, case).await,
        "digest" => {
            let answer = post(client, "/digest", &json!({ "line": case["line"] })).await;
            same("digest", &answer["digest"], &case["expect"])
        }
        "readback" => {
            let criteria = case["expect_acc"].as_str().filter(|text| !text.is_empty());
            let criteria = criteria.map(|text| text.split('+').collect::<Vec<_>>());
            let body = json!({
                "profile": case["profile"], "ho": case["ho"], "rb": case["rb"], "expect_acc": criteria, "now": case["now"],
            });
            check(client, "/check-rb", body, case).await
        }
        "presend" => {
            let body = json!({ "profile": case["profile"], "ho": case["ho"], "record": case["record"] });
            check(client, "/check-ho", body, case).await
        }
        "done" => {
            let body =
                json!({ "profile": case["profile"], "ho": case["ho"], "dn": case["dn"], "rb": case["rb"] });
            check(client, "/check-dn", body, case).await
        }
        "thread" => {
            let body = json!({ "profile": case["profile"], "lines": case["lines"], "now": case["now"] });
            check(client, "/check-thread", body, case).await
        }
        // What an agent is to reply to: there is nothing in it for a codec to do.
        "agent" => Ok(()),
        other => Err(format!("the kind {other} is new")),
    }
}

async fn parse(client: &Caller, case: &Value) -> Result<(), String> {
    let body = |line: &Value| json!({ "profile": case["profile"], "line": line });
    let answer = post(client, "/validate", &body(&case["line"])).await;
    same("ok", &answer["ok"], &json!(case["expect"] == "valid"))?;
    needles("errors_contain", case, &answer["errors"])?;
    if !case["json"].is_null() {
        same("JSON form", &answer["message"], &case["json"])?;
    }
    if case["expect"] == "valid" {
        let message = json!({ "profile": case["profile"], "message": answer["message"] });
        let line = post(client, "/from-json", &message).await["line"].clone();
        let again = post(client, "/validate", &body(&line)).await;
        same("round trip", &again["message"], &answer["message"])?;
    }
    Ok(())
}

async fn check(client: &Caller, path: &str, mut body: Value, case: &Value) -> Result<(), String> {
    if let Some(body) = body.as_object_mut() {
        body.retain(|_, value| !value.is_null());
    }
    let answer = post(client, path, &body).await;
    same("ok", &answer["ok"], &json!(case["expect"] == "match")).map_err(|why| format!("{why}: {answer}"))?;
    needles("problems_contain", case, &answer["problems"])?;
    needles("notes_contain", case, &answer["notes"])
}

fn same(what: &str, got: &Value, want: &Value) -> Result<(), String> {
    if got == want {
        Ok(())
    } else {
        Err(format!("{what}: {got}, expected {want}"))
    }
}

fn needles(name: &str, case: &Value, texts: &Value) -> Result<(), String> {
    for needle in case[name]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        let texts = texts.as_array().into_iter().flatten().filter_map(Value::as_str);
        if !texts.clone().any(|text| text.contains(needle)) {
            return Err(format!(
                "{name}: nothing says '{needle}': {:?}",
                texts.collect::<Vec<_>>()
            ));
        }
    }
    Ok(())
}
