"""The data plane: chunks over sockets, proven before they count, and the files they become."""
