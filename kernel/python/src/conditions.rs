//! native_log._kernel.Conditions: what native_log.records.conditions.RecordConditions is compiled to.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use regex::bytes::RegexBuilder;

use kafka_log_format::conditions::{Keys, Pattern, RecordConditions, literal};

#[pyclass(frozen, module = "native_log._kernel")]
pub struct Conditions {
    pub conditions: RecordConditions,
}

#[derive(FromPyObject)]
struct PatternArguments {
    kind: String,
    text: Vec<u8>,
    fields: Vec<String>,
}

#[pymethods]
impl Conditions {
    /// `conditions`: a RecordConditions. Raises ValueError for an invalid regular expression.
    #[new]
    fn new(conditions: &Bound<'_, PyAny>) -> PyResult<Self> {
        let patterns: Vec<PatternArguments> = conditions.getattr("patterns")?.extract()?;
        let keys: Option<Vec<Option<Vec<u8>>>> = conditions.getattr("keys")?.extract()?;
        let conditions = RecordConditions {
            min_timestamp_ms: conditions.getattr("min_timestamp_ms")?.extract::<Option<_>>()?.unwrap_or(i64::MIN),
            max_timestamp_ms: conditions.getattr("max_timestamp_ms")?.extract::<Option<_>>()?.unwrap_or(i64::MAX),
            producer_ids: conditions.getattr("producer_ids")?.extract()?,
            keys: keys.map(Keys::new),
            patterns: patterns.into_iter().map(compile).collect::<PyResult<_>>()?,
        };
        Ok(Conditions { conditions })
    }
}

fn compile(pattern: PatternArguments) -> PyResult<Pattern> {
    let PatternArguments { kind, text, fields } = pattern;
    let (source, is_unicode) = match kind.as_str() {
        "contains" => (literal(&text), false),
        "prefix" => (format!("\\A{}", literal(&text)), false),
        "regex" => (
            String::from_utf8(text.clone())
                .map_err(|_| PyValueError::new_err("expected a regular expression in UTF-8, found other bytes"))?,
            true,
        ),
        _ => return Err(PyValueError::new_err(format!("expected contains, prefix or regex, found {kind:?}"))),
    };
    let regex = RegexBuilder::new(&source)
        .unicode(is_unicode)
        .build()
        .map_err(|error| PyValueError::new_err(format!("cannot use the regular expression {source:?}: {error}")))?;
    let is_anchored = kind == "prefix" || (kind == "regex" && looks_around(&source));
    let has = |name: &str| fields.iter().any(|field| field == name);
    Ok(Pattern { regex, is_anchored, in_key: has("key"), in_value: has("value"), in_headers: has("headers") })
}

/// Whether an expression has anchors or word boundaries.
fn looks_around(source: &str) -> bool {
    let mut parser = regex_syntax::ParserBuilder::new().utf8(false).build();
    parser.parse(source).map_or(true, |expression| !expression.properties().look_set().is_empty())
}
