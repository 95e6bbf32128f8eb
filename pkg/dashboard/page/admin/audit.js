// The view of the audit trail.

const auditPanel = new AdminPanel('audit', (signal) => call('GET', 'audit', { signal }));

const AuditView = () => html`<${AdminView} panel=${auditPanel} needs=${['admin']} command="sluice audit"><//>`;
