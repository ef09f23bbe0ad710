//! The runbooks, which each node's console shows: where each of them is.

/// The address of a runbook in the console of the node at `node_url`. `heading` is its heading in
/// docs/how-to/runbooks.md.
#[must_use]
pub fn url(node_url: &str, heading: &str) -> String {
    let node_url = node_url.trim_end_matches('/');
    format!("{node_url}/#/runbooks?at={}", anchor(heading))
}

/// The name of a heading in links, as renderers of Markdown and the console make it.
#[must_use]
pub fn anchor(heading: &str) -> String {
    let lower = heading.trim().to_lowercase();
    let kept = lower.chars().filter_map(|char| match char {
        ' ' => Some('-'),
        '_' | '-' => Some(char),
        char => char.is_alphanumeric().then_some(char),
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_has_what_a_renderer_leaves_of_a_heading() {
        for (heading, expected) in [
            ("Full disk", "full-disk"),
            ("A store that does not count", "a-store-that-does-not-count"),
            ("TLS, `--tls-cert` (and more)", "tls---tls-cert-and-more"),
        ] {
            assert_eq!(anchor(heading), expected);
        }
        assert_eq!(
            url("https://a:8080", "Full disk"),
            "https://a:8080/#/runbooks?at=full-disk"
        );
    }
}
