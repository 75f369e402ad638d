//! Text for people: columns, durations, and nothing a terminal would obey.

/// Text without control and direction-changing characters: what a counterparty said must not steer the reader's terminal.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            c if c.is_control() => '\u{fffd}',
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Rows in columns, two spaces apart; nothing is cut.
pub fn columns(head: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| plain(cell)).collect())
        .collect();
    let width = |at: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(at))
            .map(|cell| cell.chars().count());
        cells
            .chain(head.get(at).map(|h| h.chars().count()))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    let head: Vec<String> = head.iter().map(|&h| h.to_owned()).collect();
    for row in std::iter::once(&head).chain(&rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(
                ' ',
                width.saturating_sub(cell.chars().count()) + 2,
            ));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// Names and values below each other; empty values are left out.
pub fn pairs(pairs: &[(&str, String)]) -> String {
    let shown: Vec<&(&str, String)> = pairs.iter().filter(|(_, value)| !value.is_empty()).collect();
    let width = shown.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<String> = shown
        .iter()
        .map(|(name, value)| format!("{name:width$}  {}", plain(value)))
        .collect();
    lines.join("\n")
}

/// Seconds in the two largest units that fit (`9m 58s`); `over` once it is past.
pub fn duration(seconds: i64) -> String {
    match seconds {
        i64::MIN..=0 => "over".to_owned(),
        1..=59 => format!("{seconds}s"),
        60..=3_599 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..=86_399 => format!("{}h {:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Seconds from `now` (seconds since 1970) to an RFC 3339 instant in UTC; `None` for what is none.
pub fn seconds_until(rfc3339: &str, now: i64) -> Option<i64> {
    let (date, rest) = rfc3339.split_once('T')?;
    let day = rw1::date_to_unix(&date.replace('-', ""))?;
    let time = rest.strip_suffix('Z')?.split('.').next()?;
    let mut parts = time.split(':').map(str::parse::<i64>);
    let (h, m, s) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    (parts.next().is_none()).then(|| day + h * 3_600 + m * 60 + s - now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![
            vec!["a".to_owned(), "bé".to_owned()],
            vec!["long".to_owned(), "x\u{1b}[2J".to_owned()],
        ];
        assert_eq!(
            columns(&["ONE", "TWO"], &rows),
            "ONE   TWO\na     bé\nlong  x\u{fffd}[2J"
        );
        assert_eq!(columns(&["ONE"], &[]), "ONE");
    }

    #[test]
    fn pairs_leave_out_what_is_empty() {
        let text = pairs(&[
            ("state", "done".to_owned()),
            ("close", String::new()),
            ("a", "b".to_owned()),
        ]);
        assert_eq!(text, "state  done\na      b");
    }

    #[test]
    fn time_left_is_said_in_two_units() {
        for (seconds, text) in [
            (-5, "over"),
            (0, "over"),
            (59, "59s"),
            (598, "9m 58s"),
            (3_660, "1h 01m"),
            (90_000, "1d 01h"),
        ] {
            assert_eq!(duration(seconds), text);
        }
        assert_eq!(seconds_until("1970-01-01T00:10:05.123Z", 5), Some(600));
        assert_eq!(
            seconds_until("2026-10-02T14:05:00Z", 1_790_949_900 - 60),
            Some(60)
        );
        for bad in [
            "",
            "2026-10-02",
            "2026-10-02T14:05:00",
            "2026-13-02T14:05:00Z",
            "2026-10-02T1:2:3:4Z",
        ] {
            assert_eq!(seconds_until(bad, 0), None, "{bad}");
        }
    }
}
