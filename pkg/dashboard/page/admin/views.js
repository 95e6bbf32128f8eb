const adminViews = {
  keys: { panel: keyPanel, component: KeysView },
  limits: { panel: limitPanel, component: LimitsView },
  indexes: { panel: indexPanel, component: IndexesView },
  audit: { panel: auditPanel, component: AuditView },
};

export { adminViews };
