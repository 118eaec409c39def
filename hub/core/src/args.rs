//! Arguments: unknown fields are refused, and an error names the field and what is allowed.

use consentry_wire::Failure;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// What is wrong with an argument.
pub type ArgumentError = Failure;

/// Reads a tool's arguments.
///
/// # Errors
/// `invalid_argument` with the field and what it takes.
pub fn parse_args<T: DeserializeOwned + JsonSchema>(args: Map<String, Value>) -> Result<T, ArgumentError> {
    serde_path_to_error::deserialize(Value::Object(args)).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        let named = message.split('`').nth(1).unwrap_or_default().to_owned();
        let schema = compact_schema::<T>();
        let properties = schema.get("properties").and_then(Value::as_object);
        let names = || {
            let names = properties.into_iter().flat_map(|p| p.keys()).map(String::as_str).collect::<Vec<_>>();
            if names.is_empty() { "no arguments".to_owned() } else { names.join(", ") }
        };
        let unknown = message.starts_with("unknown field");
        let missing = message.starts_with("missing field");
        let field = match path.as_str() {
            "." if unknown || missing => named,
            "." => String::from("arguments"),
            // The path of an unknown field holds its name already.
            path if missing => format!("{path}.{named}"),
            path => path.to_owned(),
        };
        let own = properties.and_then(|p| p.get(field.split(['.', '[']).next().unwrap_or_default()));
        let allowed = if unknown || own.is_none() { names() } else { own.map(words).unwrap_or_default() };
        Failure::argument(field, message, allowed)
    })
}

/// What a property takes, in words.
fn words(schema: &Value) -> String {
    let list = |values: &Vec<Value>| {
        values
            .iter()
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if let Some(values) = schema["enum"].as_array() {
        return format!("one of {}", list(values));
    }
    let kind = match &schema["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => list(&kinds.iter().filter(|k| k.as_str() != Some("null")).cloned().collect()),
        _ => String::from("a value as the schema says"),
    };
    match (&schema["minimum"], &schema["maximum"]) {
        (Value::Number(from), Value::Number(to)) => format!("{kind} from {from} to {to}"),
        (Value::Number(from), _) => format!("{kind} of at least {from}"),
        _ => kind,
    }
}

/// The schema of arguments or of a result, without what no client needs.
pub fn compact_schema<T: JsonSchema>() -> Map<String, Value> {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    compact(&mut schema);
    match schema {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// Drops titles, number formats and the nulls of optional fields: absent says the same.
fn compact(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("title").is_some_and(Value::is_string) {
                object.remove("title");
            }
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            if let Some(Value::Array(kinds)) = object.get_mut("type") {
                kinds.retain(|kind| kind != "null");
                if let [only] = kinds.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(values)) = object.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| choice["type"] != "null");
                if let [only] = choices.as_slice() {
                    let only = only.clone();
                    object.remove("anyOf");
                    if let Value::Object(only) = only {
                        for (name, value) in only {
                            object.entry(name).or_insert(value);
                        }
                    }
                }
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            object.values_mut().for_each(compact);
        }
        Value::Array(list) => list.iter_mut().for_each(compact),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, serde::Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read from")]
    struct Args {
        /// Which one.
        tab: String,
        #[schemars(range(min = 1, max = 10))]
        count: Option<u8>,
        mode: Option<Mode>,
    }

    #[derive(Debug, serde::Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        Outline,
        Text,
    }

    fn refused(args: Value) -> (String, String) {
        let failure = parse_args::<Args>(args.as_object().unwrap().clone()).unwrap_err();
        (failure.field.unwrap(), failure.allowed.unwrap())
    }

    #[test]
    fn an_error_names_the_field_and_what_is_allowed() {
        assert_eq!(refused(json!({"tab": "a", "tabb": 1})), ("tabb".into(), "count, mode, tab".into()));
        assert_eq!(refused(json!({})), ("tab".into(), "string".into()));
        assert_eq!(refused(json!({"tab": 3})), ("tab".into(), "string".into()));
        assert_eq!(
            refused(json!({"tab": "a", "mode": "loud"})),
            ("mode".into(), "one of outline, text".into())
        );
        assert_eq!(
            refused(json!({"tab": "a", "count": 300})),
            ("count".into(), "integer from 1 to 10".into())
        );
    }

    #[test]
    fn a_schema_says_no_more_than_it_must() {
        let schema = Value::Object(compact_schema::<Args>());
        let expected = json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["tab"],
            "properties": {
                "tab": {"type": "string", "description": "Which one."},
                "count": {"type": "integer", "minimum": 1, "maximum": 10},
                "mode": {"type": "string", "enum": ["outline", "text"]},
            },
        });
        assert_eq!(schema, expected);
    }
}
