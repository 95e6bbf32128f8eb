package main

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"sluice/pkg/audit"
	"sluice/pkg/bolt"
	"sluice/pkg/dynamo"
)

const auditVariable = "AUDIT_TABLE"

func openAuditDir(dir string) (audit.Store, error) { return bolt.OpenAudit(dir) }

func openAuditTable(client *dynamodb.Client, name string) (audit.Store, error) {
	return dynamo.NewAudit(client, name)
}

// audited makes a change and records it in the trail that is where s was opened.
func audited[S any](cmd *cobra.Command, s *storage[S], what audit.Record, old any, change func() (any, error)) error {
	store, known, err := openBeside(cmd, s, &s.trail)
	if err != nil {
		return err
	}
	if !known {
		fmt.Fprintln(cmd.ErrOrStderr(), "Warning: without --audit-table, the audit trail does not have this change.")
		_, err := change()
		return err
	}
	what.By, what.From = "command:"+userName(), "unknown"
	if host, err := os.Hostname(); err == nil {
		what.From = host
	}
	trail := audit.Trail{Store: store, Now: time.Now, Lost: func(err error) {
		fmt.Fprintf(cmd.ErrOrStderr(), "Warning: the change is made, but the audit trail does not say so: %v\n", err)
	}}
	return trail.Do(cmd.Context(), what, old, change)
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

func auditCommand(getenv func(string) string) *cobra.Command {
	o := &storage[audit.Store]{getenv: getenv, what: "audit records", variable: auditVariable, logicalID: "AuditTable", openDir: openAuditDir, openTable: openAuditTable}
	var q audit.Query
	var limit int
	cmd := o.command("audit [--workspace NAME] [--by WHO] [--of WHAT] [--limit N]", "Show who changed keys, limits and indexes",
		`Show who changed which API keys, limits, plans and indexes, over HTTP or with a command,
when and from where, newest first. The trail has the changes of a year. A change whose
result is "intended" may have been made: what made it was stopped.`)
	cmd.Example = `  sluice audit
  sluice audit --of key:7m3kq2xw9abc
  sluice audit --by command: --of plan:
  sluice audit --workspace acme --json`
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := requireValues(cmd, "workspace", "by", "of"); err != nil {
			return err
		}
		if limit < 1 {
			return usageError("--limit must be at least 1")
		}
		q.All = q.Workspace == ""
		return listAudit(cmd, o, q, limit)
	}
	cmd.Flags().StringVar(&q.Workspace, "workspace", "", "only changes in this workspace; plans and limits are in none")
	cmd.Flags().StringVar(&q.By, "by", "", "only changes by whom begins with this, such as key:7m3kq2xw9abc or command:")
	cmd.Flags().StringVar(&q.Of, "of", "", "only changes of what begins with this, such as plan: or index:person.email")
	cmd.Flags().IntVar(&limit, "limit", 50, "how many changes to list")
	return cmd
}

func listAudit(cmd *cobra.Command, o *storage[audit.Store], q audit.Query, limit int) error {
	s, where, err := o.open(cmd)
	if err != nil {
		return err
	}
	all := []audit.Record{}
	for {
		q.Limit = min(limit-len(all), 200)
		page, err := s.List(cmd.Context(), q)
		if err != nil {
			return fmt.Errorf("the changes in %s cannot be read: %w", where, err)
		}
		all = append(all, page.Records...)
		if q.Cursor = page.Next; q.Cursor == "" || len(all) >= limit {
			break
		}
	}
	switch {
	case o.json:
		return printJSON(cmd.OutOrStdout(), all)
	case len(all) == 0:
		fmt.Fprintf(cmd.ErrOrStderr(), "There are no changes in %s.\n", where)
		return nil
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AT\tBY\tFROM\tACTION\tOF\tWORKSPACE\tRESULT")
	for _, r := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.At.Time().Format(time.RFC3339), r.By, r.From, r.Action, r.Of, cmp.Or(r.Workspace, "-"), r.Result)
	}
	return w.Flush()
}
