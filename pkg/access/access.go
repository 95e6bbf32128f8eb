// Package access says who may use which route of the API.
package access

// Scope is what a key must have been given for a route to let it in.
type Scope string

// The scopes. The zero value is none of them: a route must declare its own.
const (
	Public    Scope = "public"    // needs no key, and no key is given it
	Import    Scope = "import"    // puts records in
	Export    Scope = "export"    // gets records out
	Dashboard Scope = "dashboard" // export jobs and usage
)
