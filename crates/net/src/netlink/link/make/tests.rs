use super::*;

#[test]
fn names_and_aliases_that_no_link_can_have_are_refused_before_the_kernel_is_asked() {
    for name in ["", "a-name-with-sixteen", "a\0b"] {
        let error = check_name(name).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EINVAL), "{name:?}");
    }
    assert!(check_alias(&"x".repeat(255)).is_ok());
    assert!(check_alias(&"x".repeat(256)).is_err());
    let error = check_name("a-name-with-sixteen").unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot make link a-name-with-sixteen: Invalid argument (os error 22): \
         not a name for a link"
    );
}
