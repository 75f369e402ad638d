//! Adapters and their contracts, as text for people.

use wilco_api::v1::{Adapter, CheckAdapterReply, ListAdaptersReply, Service};

use super::table::{columns, duration, pairs, plain};

/// All of them, one kind of act a row.
pub fn list(found: &ListAdaptersReply) -> String {
    let head = [
        "ADAPTER",
        "STANDS",
        "PROFILE",
        "ASK",
        "GUARANTEE",
        "TAKEN BACK",
        "COUNTERPARTY",
    ];
    let rows = found.adapters.iter().flat_map(|adapter| {
        adapter.serves.iter().map(|service| {
            vec![
                adapter.name.clone(),
                standing(adapter),
                service.profile.clone(),
                service.ask.clone(),
                service.guarantee.clone(),
                taken_back(service),
                adapter.counterparty.clone(),
            ]
        })
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return "no adapter is configured: nothing can be carried out".to_owned();
    }
    let mut text = columns(&head, &rows);
    for adapter in found.adapters.iter().filter(|a| !a.trouble.is_empty()) {
        text.push_str(&format!(
            "\n{}: {}",
            plain(&adapter.name),
            plain(&adapter.trouble)
        ));
    }
    text
}

/// One, with its whole contract.
pub fn one(adapter: &Adapter) -> String {
    let mut text = pairs(&[
        ("adapter", adapter.name.clone()),
        ("counterparty", adapter.counterparty.clone()),
        ("stands", standing(adapter)),
        ("trouble", adapter.trouble.clone()),
        ("at once", adapter.concurrency.to_string()),
    ]);
    for service in &adapter.serves {
        text.push_str("\n\n");
        text.push_str(&pairs(&[
            ("serves", format!("{} {}", service.profile, service.ask)),
            ("guarantee", guarantee(service)),
            ("identity", identity(service)),
            ("looked up", lookup(service)),
            (
                "can land",
                format!(
                    "for {} after the last byte",
                    duration(service.settle_window_s.into())
                ),
            ),
            ("sent late", late(service)),
            ("taken back", taken_back(service)),
            ("cut-off", service.cut_off.clone()),
            ("no return", service.point_of_no_return.clone()),
            ("not found", service.not_found_means.clone()),
            ("carried", service.carried.join(" ")),
        ]));
    }
    text
}

/// What a check found, one case a row.
pub fn checked(reply: &CheckAdapterReply) -> String {
    let rows: Vec<Vec<String>> = reply
        .cases
        .iter()
        .map(|case| {
            let finding = match case.finding.as_str() {
                "failed" => "FAILED".to_owned(),
                "not_applicable" => "n/a".to_owned(),
                other => other.to_owned(),
            };
            vec![finding, case.name.clone(), case.why.clone()]
        })
        .collect();
    let table = columns(&["FOUND", "CASE", "WHY"], &rows);
    format!("{}\n\n{table}", plain(&reply.of))
}

fn standing(adapter: &Adapter) -> String {
    if adapter.up { "up" } else { "DOWN" }.to_owned()
}

fn guarantee(service: &Service) -> String {
    let means = match service.guarantee.as_str() {
        "replayable" => ": the same bytes may be sent again without a second effect",
        "verifiable" => ": never sent twice; a lost answer is looked up",
        "blind" => ": never sent twice; what became of a lost answer only a person can say",
        _ => "",
    };
    format!("{}{means}", service.guarantee)
}

fn identity(service: &Service) -> String {
    match service.identity.as_str() {
        "enforced" => "enforced for ever".to_owned(),
        "window" => format!("enforced for {}", duration(service.window_s.into())),
        "none" => "none: sending twice acts twice".to_owned(),
        other => other.to_owned(),
    }
}

fn lookup(service: &Service) -> String {
    match service.lookup.as_str() {
        "by_reference" => "by our reference".to_owned(),
        "by_natural_key" => "by what it must leave behind".to_owned(),
        "evidence" => "presence can be proved, absence cannot".to_owned(),
        "none" => "not at all".to_owned(),
        other => other.to_owned(),
    }
}

fn late(service: &Service) -> String {
    match service.late_send.as_str() {
        "refused_after" => format!("refused after {}", duration(service.late_after_s.into())),
        other => other.to_owned(),
    }
}

fn taken_back(service: &Service) -> String {
    match (service.reversal.as_str(), service.reversal_until_s) {
        ("new_act", 0) => "by UNDO".to_owned(),
        ("new_act", s) => format!("by UNDO, for {}", duration(s.into())),
        ("none", _) => "no".to_owned(),
        (other, _) => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bank() -> Adapter {
        Adapter {
            name: "bank".into(),
            counterparty: "a bank".into(),
            up: false,
            trouble: "connection\u{1b}[2J refused".into(),
            concurrency: 16,
            serves: vec![Service {
                profile: "pay".into(),
                ask: "PAY".into(),
                guarantee: "replayable".into(),
                identity: "window".into(),
                window_s: 86_400,
                lookup: "evidence".into(),
                settle_window_s: 60,
                late_send: "refused_after".into(),
                late_after_s: 600,
                reversal: "new_act".into(),
                reversal_until_s: 3_600,
                ..Service::default()
            }],
        }
    }

    #[test]
    fn what_is_down_stands_out_and_says_why() {
        let text = list(&ListAdaptersReply {
            adapters: vec![bank()],
        });
        assert!(text.contains("DOWN"), "{text}");
        assert!(text.ends_with("bank: connection\u{fffd}[2J refused"), "{text}");
        assert!(list(&ListAdaptersReply::default()).starts_with("no adapter"));
    }

    #[test]
    fn a_contract_is_told_in_words() {
        let text = one(&bank());
        for words in [
            "enforced for 1d 00h",
            "absence cannot",
            "for 1m 00s after the last byte",
            "refused after 10m 00s",
            "by UNDO, for 1h 00m",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }
}
