//! The texts of `spec.ips`, as the schema takes them.

pub use floe_core::nodepool::address::parse;

/// An address of IPv4. Compat: zeros before a number are taken, and mean nothing.
pub(super) fn v4_pattern() -> String {
    format!("^{}$", v4())
}

/// An address of IPv6, perhaps with a zone.
pub(super) fn v6_pattern() -> String {
    let h = "[0-9a-fA-F]{1,4}";
    let v4 = v4();
    // The more groups stand before the gap, the fewer stand after it.
    let gaps = (1..=6).map(|before| format!("({h}:){{1,{before}}}(:{h}){{1,{}}}", 7 - before));
    let mut forms: Vec<String> = vec![format!("({h}:){{7}}{h}"), format!("({h}:){{1,7}}:")];
    forms.extend(gaps);
    forms.extend([
        format!(":(:{h}){{1,7}}"),
        "::".to_owned(),
        format!("({h}:){{6}}{v4}"),
        format!("::({h}:){{0,5}}{v4}"),
        format!("({h}:){{1,5}}:({h}:){{0,4}}{v4}"),
    ]);
    format!("^({})(%.+)?$", forms.join("|"))
}

fn v4() -> String {
    let octet = "(25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])";
    format!(r"({octet}\.){{3}}{octet}")
}
