//! What keys and values of labels may look like.

const LONGEST_NAME: usize = 63;
const LONGEST_PREFIX: usize = 253;

/// Checks a key: a name, perhaps with a domain and a slash before it.
pub(super) fn check_key(key: &str) -> Result<(), &'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Err("there is nothing before the slash");
        }
        if prefix.len() > LONGEST_PREFIX {
            return Err("what stands before the slash has more than 253 characters");
        }
        if !prefix.split('.').all(is_domain_label) {
            return Err("what stands before the slash is not a lower case domain name");
        }
    }
    if name.is_empty() {
        return Err("the name is empty");
    }
    check_name(name)
}

/// Checks a value: a name, or nothing.
pub(super) fn check_value(value: &str) -> Result<(), &'static str> {
    if value.is_empty() {
        return Ok(());
    }
    check_name(value)
}

fn check_name(name: &str) -> Result<(), &'static str> {
    if name.len() > LONGEST_NAME {
        return Err("it has more than 63 characters");
    }
    let inside = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.');
    if !name.bytes().all(inside) {
        return Err("only letters, digits, '-', '_' and '.' may stand in it");
    }
    let edges = [name.bytes().next(), name.bytes().next_back()];
    if !edges.iter().flatten().all(u8::is_ascii_alphanumeric) {
        return Err("it has to begin and end with a letter or digit");
    }
    Ok(())
}

/// Kubernetes has no limit of its own for the parts of a prefix.
fn is_domain_label(label: &str) -> bool {
    let inside = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    !label.is_empty()
        && label.bytes().all(inside)
        && !label.starts_with('-')
        && !label.ends_with('-')
}
