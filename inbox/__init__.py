"""The primitive: mailboxes whose items are asked now and answered later."""
