package repository_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

// outcome is what CloudFormation does with the resources of a stack in an update. The lists hold
// logical ids. Versions and aliases of functions are not in them.
type outcome struct {
	published []string // functions of which a version is published
	stale     []string // functions that differ from the version that their alias keeps
	rejected  []string // why AWS rejects the update

	added, replaced, changed, removed []string

	ofType map[string][]string // all resources after the update, by type
}

type schema struct{ Permissions, CreateOnly []string }

var schemaCache struct {
	sync.Mutex
	ofType map[string]schema
}

// schemas returns the schemas of the stack's resource types.
func schemas(t *testing.T) map[string]schema {
	t.Helper()
	resources := render(t, everything)[everything].Resolved.Resources
	schemaCache.Lock()
	defer schemaCache.Unlock()
	if schemaCache.ofType == nil {
		types := make(map[string]bool)
		for _, r := range resources {
			types[r.Type] = true
		}
		arguments := append([]string{"internal/test/repository/testdata/schemas.py"}, slices.Sorted(maps.Keys(types))...)
		if err := json.Unmarshal(python(t, "sam", "template", nil, arguments...), &schemaCache.ofType); err != nil {
			t.Fatal(err)
		}
	}
	return schemaCache.ofType
}

// outcomeOf applies the rules of CloudFormation, Lambda and DynamoDB to an update.
func outcomeOf(t *testing.T, old, updated map[string]resource) outcome {
	t.Helper()
	o, replaced := outcome{ofType: make(map[string][]string)}, replacements(t, old, updated)
	for _, id := range slices.Sorted(maps.Keys(updated)) {
		typ, isNew := updated[id].Type, old[id].Type == ""
		before, after := comparable(id, old, nil), comparable(id, updated, replaced)
		o.ofType[typ] = append(o.ofType[typ], id)
		switch {
		case typ == "AWS::Lambda::Version" || typ == "AWS::Lambda::Alias":
		case isNew:
			o.added = append(o.added, id)
		case replaced[id]:
			o.replaced = append(o.replaced, id)
		case typ == "AWS::Lambda::Function" && !reflect.DeepEqual(ofVersion(before), ofVersion(after)):
			o.stale = append(o.stale, id) // until its version is seen
		case !reflect.DeepEqual(before, after):
			o.changed = append(o.changed, id)
		}
		if n := indexChanges(before, after); n > 1 && !isNew && !replaced[id] {
			o.rejected = append(o.rejected, fmt.Sprintf("%d indexes of %s are created or deleted", n, id))
		}
	}
	for _, id := range o.ofType["AWS::Lambda::Version"] {
		if old[id].Type != "" && !replaced[id] {
			continue
		}
		function := fmt.Sprint(valueAt(updated[id].Properties, "FunctionName", "Ref"))
		o.published = append(o.published, function)
		if i := slices.Index(o.stale, function); i >= 0 {
			o.stale = slices.Delete(o.stale, i, i+1)
		} else if old[function].Type != "" {
			o.rejected = append(o.rejected, "a version of "+function+" exists already")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(old)) {
		if updated[id].Type == "" && old[id].Type != "AWS::Lambda::Version" {
			o.removed = append(o.removed, id)
		}
	}
	return o
}

// replacements returns the resources that CloudFormation replaces, because a property of which
// the schema says so has changed, or because it refers to a replaced resource.
func replacements(t *testing.T, old, updated map[string]resource) map[string]bool {
	t.Helper()
	replaced, ofType := make(map[string]bool), schemas(t)
	for known := -1; known < len(replaced); {
		known = len(replaced)
		for id, r := range updated {
			s, ok := ofType[r.Type]
			if !ok {
				t.Fatalf("%s: the schema of %s was not read", id, r.Type)
			}
			before, after := comparable(id, old, nil), comparable(id, updated, replaced)
			for _, property := range s.CreateOnly {
				if old[id].Type != "" && !reflect.DeepEqual(before[property], after[property]) {
					replaced[id] = true
				}
			}
		}
	}
	return replaced
}

// comparable returns a resource's properties, in which a reference to a property of another
// resource is the property, and a reference to a replaced resource is marked.
func comparable(id string, resources map[string]resource, replaced map[string]bool) map[string]any {
	var plain func(any) any
	plain = func(v any) any {
		switch v := v.(type) {
		case []any:
			list := make([]any, len(v))
			for i := range v {
				list[i] = plain(v[i])
			}
			return list
		case map[string]any:
			id, _ := v["Ref"].(string)
			if of, ok := v["Fn::GetAtt"].([]any); ok {
				id = fmt.Sprint(of[0])
				if value, ok := resources[id].Properties[fmt.Sprint(of[1])]; ok {
					return plain(value)
				}
			}
			members := make(map[string]any)
			for name := range v {
				members[name] = plain(v[name])
			}
			if replaced[id] {
				members["replaced"] = true
			}
			return members
		}
		return v
	}
	properties, _ := plain(resources[id].Properties).(map[string]any)
	return properties
}

// ofVersion returns the properties that a version of a function includes. The others are those of
// which VERSION_LOCKED in the AWS CDK (aws-lambda/lib/function-hash.ts) says that they are not.
func ofVersion(function map[string]any) map[string]any {
	locked := maps.Clone(function)
	for _, name := range []string{"CodeSigningConfigArn", "ReservedConcurrentExecutions", "Tags", "TenancyConfig"} {
		delete(locked, name)
	}
	return locked
}

// indexChanges counts the indexes of a table that an update creates or deletes. DynamoDB rejects an
// update with more than one (API reference, UpdateTable), and CloudFormation changes an index
// by replacing it.
func indexChanges(before, after map[string]any) (n int) {
	schemas := func(table map[string]any) map[string]any {
		indexes := make(map[string]any)
		for _, i := range oneOrMore(table["GlobalSecondaryIndexes"]) {
			indexes[fmt.Sprint(valueAt(i, "IndexName"))] = []any{valueAt(i, "KeySchema"), valueAt(i, "Projection")}
		}
		return indexes
	}
	old, updated := schemas(before), schemas(after)
	for name := range old {
		if !reflect.DeepEqual(old[name], updated[name]) {
			n++
		}
	}
	for name := range updated {
		if !reflect.DeepEqual(old[name], updated[name]) {
			n++
		}
	}
	return n
}

// String lists the effects of an update, so that a new table or function does not change the text
// where all of them are affected: "every Table but CountersTable".
func (o outcome) String() string {
	var parts []string
	list := func(verb string, ids []string) {
		var names []string
		for _, typ := range slices.Sorted(maps.Keys(o.ofType)) {
			all, short := o.ofType[typ], typ[strings.LastIndex(typ, ":")+1:]
			others := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(ids, id) })
			switch n := len(all) - len(others); {
			case n > 2 && len(others) == 0:
				names = append(names, "every "+short)
			case n > 2 && len(others) == 1:
				names = append(names, "every "+short+" but "+others[0])
			case n > 6:
				names = append(names, "several "+short+"s")
			default:
				continue
			}
			ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(all, id) })
		}
		if names = append(names, ids...); len(names) > 0 {
			parts = append(parts, verb+" "+strings.Join(names, ", "))
		}
	}
	if len(o.rejected) > 0 {
		parts = append(parts, fmt.Sprintf("REJECTED for %d reasons: %s", len(o.rejected), o.rejected[0]))
	}
	list("publishes", o.published)
	list("leaves stale", o.stale)
	list("adds", o.added)
	list("replaces", o.replaced)
	list("changes", o.changed)
	list("removes", o.removed)
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}
