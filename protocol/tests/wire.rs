//! Owns the goldens of the wire: one JSON file for every type, tag, method, error and frame in `golden/`.
//! Each must decode to the value built here and that value must encode back to the same JSON. Never tests
//! behaviour: the pure parsers are tested beside themselves.
//!
//! A new case is written by running the test with `GENT_GOLDEN_WRITE=1` and then read by a person.

#[cfg(test)]
#[path = "wire/errors.rs"]
mod errors;
#[cfg(test)]
#[path = "wire/events.rs"]
mod events;
#[cfg(test)]
#[path = "wire/frames.rs"]
mod frames;
#[cfg(test)]
#[path = "wire/golden.rs"]
mod golden;
#[cfg(test)]
#[path = "wire/methods.rs"]
mod methods;
#[cfg(test)]
#[path = "wire/samples.rs"]
mod samples;
#[cfg(test)]
#[path = "wire/values.rs"]
mod values;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gent_protocol::{AgentEvent, Method, RpcError};

    use crate::golden::{Case, golden_names};

    fn every_case() -> Vec<Case> {
        let mut cases = crate::events::cases();
        cases.extend(crate::methods::cases());
        cases.extend(crate::errors::cases());
        cases.extend(crate::frames::cases());
        cases.extend(crate::values::cases());
        cases
    }

    #[test]
    fn every_golden_decodes_to_its_value_and_encodes_back() {
        let faults: Vec<String> = every_case().iter().filter_map(Case::fault).collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn no_case_is_there_twice_and_no_golden_is_orphaned() {
        let cases = every_case();
        let names: BTreeSet<String> = cases.iter().map(|case| case.name.clone()).collect();
        assert_eq!(names.len(), cases.len());
        assert_eq!(names, golden_names());
    }

    #[test]
    fn every_method_event_and_error_has_a_golden() {
        let names = golden_names();
        let mut wanted = BTreeSet::new();
        for method in Method::ALL {
            wanted.insert(format!("method.{}.params", method.name()));
            wanted.insert(format!("method.{}.result", method.name()));
        }
        wanted.extend(AgentEvent::TAGS.iter().map(|tag| format!("event.{tag}")));
        wanted.extend(RpcError::TABLE.iter().map(|(tag, _)| format!("error.{tag}")));
        let missing: Vec<&String> = wanted.difference(&names).collect();
        assert!(missing.is_empty(), "no golden for {missing:?}");
    }
}
