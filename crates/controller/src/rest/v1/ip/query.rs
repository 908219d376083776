//! Which addresses a list is asked for.

use floe_core::{
    catalogue::{Filter, Query, Sort},
    ipam::key::{HolderKey, KeyParts, KindPrefix},
};

/// What was asked for. What makes no sense has its default, except for the one text that
/// galaxy has refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    filter: Filter,
    sort: Sort,
    descending: bool,
    page: u32,
    size: u32,
}

impl Asked {
    /// Reads the parameters. Of several with one name the first counts.
    pub fn of(parameters: &[(String, String)]) -> Result<Self, InvalidFlag> {
        let given = |name: &str| {
            let mut values = parameters.iter().filter(|(it, _)| it == name);
            values.next().map_or("", |(_, value)| value.as_str())
        };
        let keyword = given("keyword");
        let filter = if keyword.is_empty() {
            let kind = kind(given("appType"), flag(given("isDeployment"))?);
            let selector = HolderKey::lookup(&KeyParts {
                pool: Some(given("poolName")),
                kind: kind.as_str(),
                namespace: given("namespace"),
                app: given("appName"),
                pod: given("podName"),
            });
            Filter {
                selector: Some(selector),
                ..Filter::default()
            }
        } else {
            Filter {
                keyword: Some(keyword.to_owned()),
                ..Filter::default()
            }
        };
        let (sort, descending) = order(given("sort"));
        Ok(Self {
            filter,
            sort,
            descending,
            page: number(given("page"), 0, 0, 99_999),
            size: number(given("size"), 1, 10, 9_999),
        })
    }

    /// The same for the catalogue.
    pub fn query(&self) -> Query {
        Query {
            filter: self.filter.clone(),
            sort: self.sort,
            descending: self.descending,
            offset: self.offset(),
            limit: usize::try_from(self.size).unwrap_or(usize::MAX),
        }
    }

    /// How many addresses come before the page.
    pub fn offset(&self) -> u64 {
        u64::from(self.page) * self.size()
    }

    /// How many addresses a page has; never none.
    pub fn size(&self) -> u64 {
        u64::from(self.size)
    }
}

/// `isDeployment` is neither true nor false.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid isDeployment(bool field): {0}")]
pub struct InvalidFlag(String);

/// The kind of a workload. Compat: older galaxy has asked by `isDeployment`, which counts
/// only without `appType`.
pub fn kind(app_type: &str, is_deployment: bool) -> KindPrefix {
    let fallback = if is_deployment { "deployment" } else { "" };
    let app_type = Some(app_type).filter(|it| !it.is_empty());
    KindPrefix::from_parameter(app_type.unwrap_or(fallback))
}

/// A flag, by the words that Go knows. No text is false.
fn flag(text: &str) -> Result<bool, InvalidFlag> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(InvalidFlag(other.to_owned())),
    }
}

/// The order, and whether it is turned round.
///
/// Compat: without a word addresses are sorted as texts, as galaxy does. Only an
/// explicit `ip` sorts them as numbers. A bare `namespace` is not known there.
fn order(text: &str) -> (Sort, bool) {
    match text.to_lowercase().as_str() {
        "ip" | "ip asc" => (Sort::Ip, false),
        "ip desc" => (Sort::Ip, true),
        "podname" | "podname asc" => (Sort::Pod, false),
        "podname desc" => (Sort::Pod, true),
        "policy" | "policy asc" => (Sort::Policy, false),
        "policy desc" => (Sort::Policy, true),
        "namespace asc" => (Sort::Namespace, false),
        "namespace desc" => (Sort::Namespace, true),
        _ => (Sort::IpText, false),
    }
}

/// A number with a least and a most. What is less, or no number, is the default.
fn number(text: &str, least: u32, default: u32, most: u32) -> u32 {
    match text.parse::<i64>() {
        Ok(number) if number >= i64::from(least) => u32::try_from(number).unwrap_or(most).min(most),
        _ => default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Asked {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        let pairs: Vec<(String, String)> = pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Asked::of(&pairs).unwrap()
    }

    #[test]
    fn selectors_become_the_prefix_of_a_key() {
        let table = [
            ("", ""),
            ("podName=x", ""),
            ("appType=deployment", ""),
            ("poolName=p", "pool__p_"),
            ("poolName=p&namespace=ns", "pool__p_"),
            ("poolName=p&appName=a&namespace=n", "pool__p_sts_n_a_"),
            ("namespace=ns", "sts_ns__"),
            ("appName=a", "sts__a_"),
            ("namespace=n&appName=a", "sts_n_a_"),
            ("namespace=n&appName=a&appType=", "sts_n_a_"),
            ("namespace=n&appName=a&appType=StatefulSets", "sts_n_a_"),
            ("namespace=n&appName=a&appType=deployment", "dp_n_a_"),
            (
                "namespace=n&appName=a&appType=TApp&podName=a-1",
                "tapp_n_a_a-1",
            ),
            ("namespace=n&namespace=m&appName=a", "sts_n_a_"),
            ("isDeployment=true&namespace=n&appName=a", "dp_n_a_"),
            ("isDeployment=false&namespace=n&appName=a", "sts_n_a_"),
            (
                "isDeployment=true&namespace=n&appName=a&appType=tapp",
                "tapp_n_a_",
            ),
        ];
        for (text, key) in table {
            let filter = Filter {
                selector: Some(key.into()),
                ..Filter::default()
            };
            assert_eq!(asked(text).query().filter, filter, "{text}");
        }
    }

    #[test]
    fn a_flag_that_is_none_is_refused() {
        let pair = |value: &str| [("isDeployment".to_owned(), value.to_owned())];
        let error = Asked::of(&pair("maybe")).unwrap_err();
        assert_eq!(error.to_string(), "invalid isDeployment(bool field): maybe");
        for known in ["", "1", "t", "TRUE", "0", "F", "False"] {
            Asked::of(&pair(known)).unwrap();
        }
    }

    #[test]
    fn a_keyword_makes_all_selectors_void() {
        let filter = Filter {
            keyword: Some("web".into()),
            ..Filter::default()
        };
        let query = asked("namespace=n&appName=a&keyword=web").query();
        assert_eq!(query.filter, filter);
        let query = asked("keyword=&poolName=p").query();
        assert_eq!(query.filter.selector, Some("pool__p_".into()));
    }

    #[test]
    fn pages_and_sizes_have_limits_and_defaults() {
        let table = [
            ("", 0, 10),
            ("page=2&size=3", 6, 3),
            ("page=-1&size=0", 0, 10),
            ("page=x&size=-5", 0, 10),
            ("page=&size=", 0, 10),
            ("page=1.5&size=1e3", 0, 10),
            ("page=99999&size=9999", 99_999 * 9_999, 9_999),
            ("page=100000&size=10000", 99_999 * 9_999, 9_999),
            ("page=5000000000&size=1", 99_999, 1),
            ("page=99999999999999999999&size=99999999999999999999", 0, 10),
        ];
        for (text, offset, limit) in table {
            let query = asked(text).query();
            assert_eq!((query.offset, query.limit), (offset, limit), "{text}");
        }
    }

    #[test]
    fn orders_are_known_in_any_case_and_all_others_are_the_textual_one() {
        let table = [
            ("", Sort::IpText, false),
            ("ip", Sort::Ip, false),
            ("ip asc", Sort::Ip, false),
            ("IP Desc", Sort::Ip, true),
            ("podname", Sort::Pod, false),
            ("podName asc", Sort::Pod, false),
            ("podname desc", Sort::Pod, true),
            ("policy", Sort::Policy, false),
            ("policy asc", Sort::Policy, false),
            ("policy desc", Sort::Policy, true),
            ("namespace asc", Sort::Namespace, false),
            ("namespace DESC", Sort::Namespace, true),
            ("namespace", Sort::IpText, false),
            ("ip  asc", Sort::IpText, false),
            ("updateTime", Sort::IpText, false),
        ];
        for (text, sort, descending) in table {
            let query = asked(&format!("sort={text}")).query();
            assert_eq!((query.sort, query.descending), (sort, descending), "{text}");
        }
    }
}
