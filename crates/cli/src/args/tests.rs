use clap::{CommandFactory as _, error::ErrorKind};

use super::*;

fn parse(line: &str) -> Result<Args, clap::Error> {
    Args::try_parse_from(["kubectl-floe"].into_iter().chain(line.split_whitespace()))
}

fn refusal(line: &str) -> ErrorKind {
    parse(line).unwrap_err().kind()
}

#[test]
fn the_definition_is_sound() {
    Args::command().debug_assert();
}

#[test]
fn flags_of_the_connection_stand_anywhere() {
    for line in [
        "-n web --context lab ip list",
        "ip list -n web --context lab",
        "ip -n web list --context=lab",
    ] {
        let connection = parse(line).unwrap().connection;
        assert_eq!(connection.namespace.as_deref(), Some("web"), "{line}");
        assert_eq!(connection.context.as_deref(), Some("lab"), "{line}");
    }
}

#[test]
fn states_are_taken_in_any_case_and_with_commas() {
    let args = parse("ip list -A --state bound,Kept --state SPARE -o wide").unwrap();
    let Command::Ip(Ip::List(list)) = args.command else {
        panic!("{args:?}");
    };
    assert_eq!(
        list.selection.state,
        [HeldState::Bound, HeldState::Kept, HeldState::Spare]
    );
    assert_eq!(list.listing.output.format, Some(Format::Wide));
    assert_eq!(refusal("ip list --state free"), ErrorKind::InvalidValue);
}

#[test]
fn all_namespaces_and_one_exclude_each_other() {
    assert_eq!(refusal("ip list -A -n web"), ErrorKind::ArgumentConflict);
    assert_eq!(refusal("pool list -n web -A"), ErrorKind::ArgumentConflict);
    assert_eq!(refusal("vip list -n web -A"), ErrorKind::ArgumentConflict);
}

#[test]
fn what_is_needed_is_asked_for() {
    for line in [
        "ip show",
        "ip reserve",
        "ip unreserve",
        "pool set",
        "pool delete",
        "explain",
        "vip show",
        "vip move web",
        "vip move --to web-1",
    ] {
        assert_eq!(refusal(line), ErrorKind::MissingRequiredArgument, "{line}");
    }
    assert_eq!(refusal("import"), ErrorKind::MissingRequiredArgument);
    assert_eq!(
        refusal("pool set web --size -1"),
        ErrorKind::ValueValidation
    );
}

#[test]
fn preallocation_is_left_alone_unless_it_is_named() {
    let said = |line| {
        let command = parse(line).unwrap().command;
        let Command::Pool(Pool::Set { preallocate, .. }) = command else {
            panic!("{command:?}");
        };
        preallocate
    };
    assert_eq!(said("pool set web --size 4"), None);
    assert_eq!(said("pool set web --preallocate"), Some(true));
    assert_eq!(said("pool set --preallocate=false web"), Some(false));
    assert_eq!(said("pool set --preallocate web"), Some(true));
}

#[test]
fn usage_has_exit_code_2() {
    assert_eq!(parse("ip frobnicate").unwrap_err().exit_code(), 2);
    assert_eq!(parse("--help").unwrap_err().exit_code(), 0);
}
