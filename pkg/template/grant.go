package template

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Grant is one action that a function may take, on one resource.
type Grant struct {
	Action string // dynamodb:Query

	// Resource is the logical id and what follows its Arn:
	// EntitiesTable, EntitiesTable/index/by_type, or Files/* for a bucket's objects.
	Resource string
}

// grants reads the Policies of a function, which are written out statement by
// statement: no managed policy, no template of SAM's. It refuses wildcards, but
// for the objects of a bucket.
func (p *parser) grants(v value) []Grant {
	var grants []Grant
	for _, v := range p.sequence(v) {
		policy := p.mapping(v)
		p.only(policy, "Statement")
		for _, v := range p.sequence(p.required(policy, "Statement")) {
			statement := p.mapping(v)
			p.only(statement, "Effect", "Action", "Resource")
			if effect := p.required(statement, "Effect"); p.text(effect) != "Allow" {
				p.fail(effect, "is Allow")
			}
			resources := p.oneOrMore(p.required(statement, "Resource"))
			for _, v := range p.oneOrMore(p.required(statement, "Action")) {
				action := p.text(v)
				if strings.ContainsAny(action, "*?") {
					p.fail(v, "%q is a wildcard", action)
				}
				for _, resource := range resources {
					grants = append(grants, Grant{Action: action, Resource: p.arn(resource)})
				}
			}
		}
	}
	slices.SortFunc(grants, func(a, b Grant) int {
		return cmp.Or(strings.Compare(a.Action, b.Action), strings.Compare(a.Resource, b.Resource))
	})
	return grants
}

// oneOrMore is the elements of a list, or v itself where it is none.
func (p *parser) oneOrMore(v value) []value {
	if v.node != nil && v.node.Kind == yaml.SequenceNode {
		return p.sequence(v)
	}
	return []value{v}
}

var arnSub = regexp.MustCompile(`^\$\{([A-Za-z0-9]+)\.Arn\}([^$]*)$`)

// arn reads the ARN of a resource of the template, as Grant has it.
func (p *parser) arn(v value) string {
	if v.node == nil {
		return ""
	}
	var id, rest string
	if v.node.Kind == yaml.ScalarNode && v.node.Tag == "!Sub" {
		if m := arnSub.FindStringSubmatch(v.node.Value); m != nil {
			id, rest = m[1], m[2]
		}
	} else {
		id, _ = strings.CutSuffix(p.attribute(v), ".Arn")
	}
	typ, ok := p.types[id]
	switch {
	case !ok:
		p.fail(v, "is not the Arn of a resource of this template, by !GetAtt or !Sub")
	case strings.ContainsAny(rest, "*?") && (typ != typeBucket || rest != "/*"):
		p.fail(v, "%q is a wildcard", rest)
	}
	return id + rest
}
