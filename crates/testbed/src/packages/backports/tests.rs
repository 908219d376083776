use super::*;

const PARAGRAPHS: &str = "\
# the main archive
Types: deb deb-src
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/some.gpg

Types: deb
URIs: http://mirror.test/debian-security
Suites: bookworm-security
Components: main
";

fn deb822(text: &str) -> Source {
    Source {
        format: Format::Deb822,
        text: text.to_owned(),
    }
}

fn one_line(text: &str) -> Source {
    Source {
        format: Format::OneLine,
        text: text.to_owned(),
    }
}

#[test]
fn a_paragraph_keeps_mirror_components_and_key() {
    let derived = derive(&[deb822(PARAGRAPHS)], "bookworm");
    let expected = "\
Types: deb
URIs: http://mirror.test/debian
Suites: bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/some.gpg
";
    assert_eq!(derived, Backports::Derived(deb822(expected)));
}

#[test]
fn the_security_archive_is_no_mirror_of_the_release() {
    let security = PARAGRAPHS.split("\n\n").nth(1).unwrap();
    assert_eq!(derive(&[deb822(security)], "bookworm"), Backports::Unknown);
}

#[test]
fn a_disabled_or_source_only_paragraph_does_not_count() {
    let disabled = "Enabled: no\nTypes: deb\nURIs: http://m.test\nSuites: bookworm\n";
    let sources = "Types: deb-src\nURIs: http://m.test\nSuites: bookworm\n";
    assert_eq!(
        derive(&[deb822(disabled), deb822(sources)], "bookworm"),
        Backports::Unknown
    );
}

#[test]
fn lines_keep_their_options() {
    let text = "# deb http://old.test/debian bookworm main\n\
        deb [ arch=amd64 signed-by=/k.gpg ] http://mirror.test/debian bookworm main contrib\n";
    assert_eq!(
        derive(&[one_line(text)], "bookworm"),
        Backports::Derived(one_line(
            "deb [arch=amd64 signed-by=/k.gpg] http://mirror.test/debian bookworm-backports main contrib\n"
        ))
    );
}

#[test]
fn configured_backports_are_used_as_they_are() {
    let line = one_line("deb http://mirror.test/debian bookworm-backports main\n");
    assert_eq!(
        derive(&[deb822(PARAGRAPHS), line], "bookworm"),
        Backports::Configured
    );
}

#[test]
fn the_codename_may_be_quoted_and_may_be_absent() {
    assert_eq!(
        codename("ID=debian\nVERSION_CODENAME=\"trixie\"\n").as_deref(),
        Some("trixie")
    );
    assert_eq!(codename("ID=debian\nVERSION_CODENAME=\n"), None);
    assert_eq!(codename("ID=other\n"), None);
}
