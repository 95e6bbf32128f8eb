package template

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// parser walks the nodes of a template and collects what is wrong with it. Its
// methods give the zero value for what they refuse, and accept a zero value in
// silence, so that one problem is reported once.
type parser struct {
	errs       []error
	parameters map[string]value  // by name
	types      map[string]string // logical id → type of the resource
}

// value is a node and its place in the template, such as
// template.Resources.EventsTable.Properties. The zero value stands for a value
// that was refused or is not there.
type value struct {
	name string
	node *yaml.Node
}

// mapping is the members of a value, in their order.
type mapping struct {
	value
	order  []string
	fields map[string]value
}

func (p *parser) fail(v value, format string, args ...any) {
	if v.node != nil {
		p.errs = append(p.errs, fmt.Errorf("line %d: %s: %s", v.node.Line, v.name, fmt.Sprintf(format, args...)))
	}
}

// mapping takes v apart, which must be a mapping without tag.
func (p *parser) mapping(v value) mapping {
	m := mapping{value: v}
	if v.node == nil {
		return m
	}
	if v.node.Kind != yaml.MappingNode || v.node.Tag != "!!map" {
		p.fail(v, "is not a mapping")
		return m
	}
	m.fields = make(map[string]value, len(v.node.Content)/2)
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		if key.Kind != yaml.ScalarNode {
			p.fail(v, "has a key that is not text")
			continue
		}
		field := value{name: v.name + "." + key.Value, node: v.node.Content[i+1]}
		if _, again := m.fields[key.Value]; again {
			p.fail(field, "appears twice")
			continue
		}
		m.order = append(m.order, key.Value)
		m.fields[key.Value] = field
	}
	return m
}

// sequence takes v apart, which must be a list without tag.
func (p *parser) sequence(v value) []value {
	if v.node == nil {
		return nil
	}
	if v.node.Kind != yaml.SequenceNode || v.node.Tag != "!!seq" {
		p.fail(v, "is not a list")
		return nil
	}
	elements := make([]value, len(v.node.Content))
	for i, n := range v.node.Content {
		elements[i] = value{name: fmt.Sprintf("%s[%d]", v.name, i), node: n}
	}
	return elements
}

// only refuses fields of m with other names.
func (p *parser) only(m mapping, names ...string) {
	for _, name := range m.order {
		if !slices.Contains(names, name) {
			p.fail(m.fields[name], "is not understood")
		}
	}
}

// required is the field of m, which must be there.
func (p *parser) required(m mapping, field string) value {
	v, ok := m.fields[field]
	if !ok && m.fields != nil {
		p.fail(m.value, "has no %s", field)
	}
	return v
}

// optional is the field of m as a mapping, an empty one where it is not there.
func (p *parser) optional(m mapping, field string) mapping {
	return p.mapping(m.fields[field])
}

// text is v, which must be a string that is not empty, written out: not an
// intrinsic function.
func (p *parser) text(v value) string {
	return p.scalar(v, "!!str")
}

// scalar is v, which must be of the tag and not empty.
func (p *parser) scalar(v value, tag string) string {
	if v.node == nil {
		return ""
	}
	if v.node.Kind != yaml.ScalarNode || v.node.Tag != tag || v.node.Value == "" {
		p.fail(v, "is not %s written out", map[string]string{"!!str": "text", "!!bool": "true or false"}[tag])
		return ""
	}
	return v.node.Value
}

// reference is the parameter or resource that v refers to, by !Ref X or
// {Ref: X}, and "" where v is anything else. What v refers to must exist.
func (p *parser) reference(v value) string {
	var target string
	switch {
	case v.node == nil:
		return ""
	case v.node.Kind == yaml.ScalarNode && v.node.Tag == "!Ref":
		target = v.node.Value
	case v.node.Kind == yaml.MappingNode && v.node.Tag == "!!map" && len(v.node.Content) == 2 && v.node.Content[0].Value == "Ref":
		target = p.text(value{name: v.name + ".Ref", node: v.node.Content[1]})
	default:
		return ""
	}
	_, parameter := p.parameters[target]
	_, resource := p.types[target]
	pseudo := len(target) > len("AWS::") && target[:len("AWS::")] == "AWS::"
	if !parameter && !resource && !pseudo {
		p.fail(v, "refers to %q, which is neither a parameter nor a resource", target)
	}
	return target
}

// attribute is what v gets by !GetAtt, such as JobsTable.StreamArn, and "" where
// v is anything else.
func (p *parser) attribute(v value) string {
	if v.node == nil || v.node.Kind != yaml.ScalarNode || v.node.Tag != "!GetAtt" {
		return ""
	}
	return v.node.Value
}
