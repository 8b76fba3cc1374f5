"""The sweep file: read, validated and resolved into a plan."""
