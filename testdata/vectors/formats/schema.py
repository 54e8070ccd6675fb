"""As much of JSON Schema (draft 2020-12) as docs/spec/schema uses, and not more:
an unknown keyword is an error."""
import re

KNOWN = {"$schema", "$id", "$defs", "title", "description", "$ref", "type", "const", "enum", "pattern", "minLength", "maxLength", "minimum",
         "maximum", "items", "minItems", "maxItems", "uniqueItems", "properties", "required", "additionalProperties", "propertyNames",
         "minProperties", "maxProperties"}
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def fits(v, schema, root=None):
    """Whether a value of the json module fits the schema."""
    root = schema if root is None else root
    if schema is False or schema is True:
        return schema
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema:
        assert schema["$ref"].startswith("#/$defs/") and len(schema) == 1, schema
        return fits(v, root["$defs"][schema["$ref"][len("#/$defs/") :]], root)
    if "type" in schema and (not isinstance(v, TYPES[schema["type"]]) or (schema["type"] == "integer" and isinstance(v, bool))):
        return False
    if ("const" in schema and v != schema["const"]) or ("enum" in schema and v not in schema["enum"]):
        return False
    if isinstance(v, str):
        # ECMAScript's $ ends the text; Python's may stand before a last newline.
        pattern = re.sub(r"\$$", r"\\Z", schema.get("pattern", ""))
        return len(v) >= schema.get("minLength", 0) and len(v) <= schema.get("maxLength", len(v)) and re.search(pattern, v) is not None
    if isinstance(v, list):
        n = len(v)
        unique = not schema.get("uniqueItems") or all(v[i] not in v[:i] for i in range(n))
        return unique and schema.get("minItems", 0) <= n <= schema.get("maxItems", n) and all(fits(x, schema.get("items", True), root) for x in v)
    if isinstance(v, dict):
        n, props = len(v), schema.get("properties", {})
        return (schema.get("minProperties", 0) <= n <= schema.get("maxProperties", n) and set(schema.get("required", [])) <= set(v)
                and all(fits(name, schema.get("propertyNames", True), root) for name in v)
                and all(fits(x, props.get(name, schema.get("additionalProperties", True)), root) for name, x in v.items()))
    if isinstance(v, int):
        return schema.get("minimum", v) <= v <= schema.get("maximum", v)
    return True
